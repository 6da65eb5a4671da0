// Package log keeps the records of one replica on disk, and all replicas of a broker in a Store.
package log
