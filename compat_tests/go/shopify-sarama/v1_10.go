//go:build v1_10

package main

import (
	"fmt"

	"github.com/Shopify/sarama"
	"headgate.test/lines"
)

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
}

var versions = map[string]sarama.KafkaVersion{
	"0.8.2": sarama.V0_8_2_0,
	"0.9":   sarama.V0_9_0_0,
	"0.10":  sarama.V0_10_0_0,
}

func version(name string) (sarama.KafkaVersion, error) {
	found, known := versions[name]
	if !known {
		return found, fmt.Errorf("unknown version of Kafka: %q", name)
	}
	return found, nil
}

// addRecent: there are no headers, and the broker gives the timestamp.
func addRecent(*sarama.ProducerMessage, lines.Record) {}

func headers(*sarama.ConsumerMessage) []lines.Header { return []lines.Header{} }

func (client) Group(in lines.Membership, count int, emit func(lines.Record) error) error {
	return readAlone(in, count, emit)
}
