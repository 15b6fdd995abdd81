//go:build !v1_10

package main

import (
	"strings"
	"time"

	"github.com/Shopify/sarama"
	"headgate.test/lines"
)

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
}

// version takes what is short too, as 0.11 and 1.0.
func version(name string) (sarama.KafkaVersion, error) {
	parts := 3
	if strings.HasPrefix(name, "0.") {
		parts = 4
	}
	return sarama.ParseKafkaVersion(name + strings.Repeat(".0", parts-1-strings.Count(name, ".")))
}

// addRecent adds what the protocol that is spoken may leave out again.
func addRecent(message *sarama.ProducerMessage, record lines.Record) {
	message.Timestamp = time.UnixMilli(record.TimestampMs)
	for _, header := range record.Headers {
		message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value})
	}
}

func headers(message *sarama.ConsumerMessage) []lines.Header {
	found := []lines.Header{}
	for _, header := range message.Headers {
		found = append(found, lines.Header{Name: string(header.Key), Value: header.Value})
	}
	return found
}
