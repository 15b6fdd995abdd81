//go:build !v0_2

package main

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"headgate.test/lines"
)

var codecs = map[string]kafka.Compression{
	"none":   0,
	"gzip":   kafka.Gzip,
	"snappy": kafka.Snappy,
	"lz4":    kafka.Lz4,
	"zstd":   kafka.Zstd,
}

func newWriter(to lines.Target, codec string, partition int) (writer, error) {
	compression, known := codecs[codec]
	if !known {
		return nil, fmt.Errorf("unknown codec %q", codec)
	}
	return &kafka.Writer{
		Addr:         kafka.TCP(to.Bootstrap),
		Topic:        to.Topic,
		Balancer:     kafka.BalancerFunc(func(kafka.Message, ...int) int { return partition }),
		BatchTimeout: 10 * time.Millisecond,
		RequiredAcks: kafka.RequireAll,
		Compression:  compression,
		Transport:    &kafka.Transport{TLS: to.TLS, SASL: mechanism(to.Login)},
	}, nil
}

// mechanism is nil without a login. One that the client lacks is a mistake of the test.
func mechanism(login *lines.Login) sasl.Mechanism {
	if login == nil {
		return nil
	}
	var found sasl.Mechanism
	err := fmt.Errorf("kafka-go has no mechanism %s", login.Mechanism)
	switch login.Mechanism {
	case "PLAIN":
		return plain.Mechanism{Username: login.User, Password: login.Password}
	case "SCRAM-SHA-256":
		found, err = scram.Mechanism(scram.SHA256, login.User, login.Password)
	case "SCRAM-SHA-512":
		found, err = scram.Mechanism(scram.SHA512, login.User, login.Password)
	}
	if err != nil {
		panic(err)
	}
	return found
}

func addLogin(dialer *kafka.Dialer, to lines.Target) { dialer.SASLMechanism = mechanism(to.Login) }

func settings(to lines.Target) *tls.Config { return to.TLS }

func milliseconds(at time.Time) int64 { return at.UnixMilli() }

func addHeaders(message *kafka.Message, record lines.Record) {
	for _, header := range record.Headers {
		message.Headers = append(message.Headers, kafka.Header{Key: header.Name, Value: header.Value})
	}
}

func headers(message kafka.Message) []lines.Header {
	found := []lines.Header{}
	for _, header := range message.Headers {
		found = append(found, lines.Header{Name: header.Key, Value: header.Value})
	}
	return found
}
