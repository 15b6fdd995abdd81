//go:build v0_2

package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/segmentio/kafka-go"
	"headgate.test/lines"
)

// newWriter: this version has codecs, but sends what it has compressed to nobody, and does not look at the codec of what
// it reads.
func newWriter(to lines.Target, codec string, partition int) (writer, error) {
	if codec != "none" {
		return nil, fmt.Errorf("unknown codec %q", codec)
	}
	return kafka.NewWriter(kafka.WriterConfig{
		Brokers:      []string{to.Bootstrap},
		Topic:        to.Topic,
		Balancer:     kafka.BalancerFunc(func(kafka.Message, ...int) int { return partition }),
		BatchTimeout: 10 * time.Millisecond,
		RequiredAcks: -1,
		Dialer:       dialer(to),
	}), nil
}

// settings: this version does not know by itself which host name it has to check.
func settings(to lines.Target) *tls.Config {
	if to.TLS == nil {
		return nil
	}
	config := to.TLS.Clone()
	config.ServerName, _, _ = net.SplitHostPort(to.Bootstrap)
	return config
}

// addLogin: this version has no logins.
func addLogin(*kafka.Dialer, lines.Target) {}

// milliseconds: what it reads, by Fetch v1, has no time; it shows the beginning of all times.
func milliseconds(at time.Time) int64 {
	if at.UnixMilli() == 0 {
		return -1
	}
	return at.UnixMilli()
}

// addHeaders: there are none in what it speaks.
func addHeaders(*kafka.Message, lines.Record) {}

func headers(kafka.Message) []lines.Header { return []lines.Header{} }
