package kafka

import "log/slog"

// LogValue has log lines show the name, not the fields.
func (tp TopicPartition) LogValue() slog.Value { return slog.StringValue(tp.String()) }

// LogValue has log lines show the 22 letters, not the bytes.
func (u UUID) LogValue() slog.Value { return slog.StringValue(u.String()) }

// LogValue has log lines show the name, not the number.
func (c Code) LogValue() slog.Value { return slog.StringValue(c.String()) }
