// Package config knows every setting: Kafka's broker and topic configs and Weir's own, with type, default, valid values,
// synonyms, update mode and a word of documentation each.
//
// It does three things. It reads what the operator gave (server.properties, KAFKA_* and WEIR_* variables, overrides,
// flags) into a Server whose every value knows where it came from. It resolves what is in force for a topic or a broker
// (topic over dynamic broker over dynamic default over static over default), typed for the data path and described, with
// sources and synonyms, for DescribeConfigs and CreateTopics. And it validates changes, with Kafka's own error texts:
// users search for those, so they are behaviour.
//
// Invariants: the tables are complete (a name Kafka 4.4 reports is a row) and every default passes its own validator.
// A Server is immutable once loaded. No goroutines, no locks; the only I/O is reading the properties file and, in
// LocalHost, asking the system for its name.
package config
