// sarama, driven by the command line of headgate.test/lines.
package main

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"headgate.test/lines"
)

type client struct{}

func main() { lines.Main(client{}) }

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

// settings are the defaults, which speak the protocol of Kafka 2.8, with retries that outlast a restart of the broker.
func settings(target lines.Target) (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.ClientID = "compat"
	config.Metadata.Retry.Max = 100
	config.Metadata.Retry.Backoff = 100 * time.Millisecond
	config.Consumer.Retry.Backoff = 100 * time.Millisecond
	config.Net.TLS.Enable, config.Net.TLS.Config = target.TLS != nil, target.TLS
	if target.Login != nil {
		logIn(config, target.Login)
	}
	if target.Isolation == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	if target.Protocol == "" {
		return config, nil
	}
	var err error
	config.Version, err = sarama.ParseKafkaVersion(target.Protocol)
	return config, err
}

func producerSettings(to lines.Target) (*sarama.Config, error) {
	config, err := settings(to)
	if err != nil {
		return nil, err
	}
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Flush.Frequency = 5 * time.Millisecond
	config.Producer.Retry.Max = 100
	config.Producer.Retry.Backoff = 100 * time.Millisecond
	// Its idempotence asks for these two
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Net.MaxOpenRequests = 1
	config.Producer.Return.Successes = true
	return config, nil
}

func (client) Produce(to lines.Target, codec string, next func() (lines.Record, error)) error {
	compression, known := codecs[codec]
	if !known {
		return fmt.Errorf("unknown codec %q", codec)
	}
	config, err := producerSettings(to)
	if err != nil {
		return err
	}
	config.Producer.Compression = compression
	producer, err := sarama.NewAsyncProducer([]string{to.Bootstrap}, config)
	if err != nil {
		return err
	}
	return send(producer, to.Topic, next)
}

// send closes the producer when every record is answered: sarama's Close fails batches that it is about to send again.
func send(producer sarama.AsyncProducer, topic string, next func() (lines.Record, error)) error {
	var unanswered sync.WaitGroup
	failures := make(chan error, 1)
	go func() {
		for range producer.Successes() {
			unanswered.Done()
		}
	}()
	go func() {
		var all []error
		for failure := range producer.Errors() {
			all = append(all, failure)
			unanswered.Done()
		}
		failures <- errors.Join(all[:min(3, len(all))]...)
	}()
	record, err := next()
	for ; err == nil; record, err = next() {
		unanswered.Add(1)
		producer.Input() <- toSend(topic, record)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	unanswered.Wait()
	producer.AsyncClose()
	return errors.Join(err, <-failures)
}

func toSend(topic string, record lines.Record) *sarama.ProducerMessage {
	message := &sarama.ProducerMessage{
		Topic:     topic,
		Partition: record.Partition,
		Timestamp: time.UnixMilli(record.TimestampMs),
	}
	// An Encoder of nil bytes would be an empty key and not none
	if record.Key != nil {
		message.Key = sarama.ByteEncoder(record.Key)
	}
	if record.Value != nil {
		message.Value = sarama.ByteEncoder(record.Value)
	}
	for _, header := range record.Headers {
		message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(header.Name), Value: header.Value})
	}
	return message
}

func received(message *sarama.ConsumerMessage) lines.Record {
	record := lines.Record{
		Partition:   message.Partition,
		Offset:      message.Offset,
		TimestampMs: message.Timestamp.UnixMilli(),
		Key:         message.Key,
		Value:       message.Value,
		Headers:     []lines.Header{},
	}
	for _, header := range message.Headers {
		record.Headers = append(record.Headers, lines.Header{Name: string(header.Key), Value: header.Value})
	}
	return record
}

func (client) Consume(from lines.Target, limits map[int32]int64, start lines.Start, emit func(lines.Record) error) error {
	config, err := settings(from)
	if err != nil {
		return err
	}
	config.Consumer.Return.Errors = true
	kafka, err := sarama.NewClient([]string{from.Bootstrap}, config)
	if err != nil {
		return err
	}
	defer kafka.Close()
	left, first := lines.Waiting(limits), map[int32]int64{}
	for partition := range left {
		if first[partition], err = position(kafka, from.Topic, partition, start); err != nil {
			return err
		}
	}
	if len(left) == 0 {
		return nil
	}
	return read(kafka, from.Topic, first, func(message *sarama.ConsumerMessage) (bool, error) {
		if !left.Take(message.Partition) {
			return false, nil
		}
		return len(left) == 0, emit(received(message))
	})
}

func (client) Read(from lines.Target, count int, emit func(lines.Record) error) error {
	config, err := settings(from)
	if err != nil {
		return err
	}
	config.Consumer.Return.Errors = true
	kafka, err := sarama.NewClient([]string{from.Bootstrap}, config)
	if err != nil {
		return err
	}
	defer kafka.Close()
	partitions, err := kafka.Partitions(from.Topic)
	if err != nil {
		return err
	}
	first := map[int32]int64{}
	for _, partition := range partitions {
		first[partition] = sarama.OffsetOldest
	}
	return read(kafka, from.Topic, first, func(message *sarama.ConsumerMessage) (bool, error) {
		count--
		return count == 0, emit(received(message))
	})
}

// read hands what follows the offsets to take, until that has enough.
func read(kafka sarama.Client, topic string, first map[int32]int64, take func(*sarama.ConsumerMessage) (bool, error)) error {
	consumer, err := sarama.NewConsumerFromClient(kafka)
	if err != nil {
		return err
	}
	messages, failures, done := make(chan *sarama.ConsumerMessage), make(chan error), make(chan struct{})
	defer close(done)
	for partition, offset := range first {
		reading, err := consumer.ConsumePartition(topic, partition, offset)
		if err != nil {
			return err
		}
		go forward(reading, messages, failures, done)
	}
	taken := 0
	for deadline := time.After(lines.Limit); ; taken++ {
		select {
		case message := <-messages:
			if enough, err := take(message); enough || err != nil {
				return err
			}
		case err := <-failures:
			return err
		case <-deadline:
			return lines.Late(taken)
		}
	}
}

// forward hands on what one partition gives, until done is closed.
func forward(from sarama.PartitionConsumer, messages chan<- *sarama.ConsumerMessage, failures chan<- error, done <-chan struct{}) {
	defer from.AsyncClose()
	for {
		select {
		case message := <-from.Messages():
			select {
			case messages <- message:
			case <-done:
				return
			}
		case err := <-from.Errors():
			select {
			case failures <- err:
			case <-done:
			}
			return
		case <-done:
			return
		}
	}
}

func position(kafka sarama.Client, topic string, partition int32, start lines.Start) (int64, error) {
	switch start.At {
	case "earliest":
		return sarama.OffsetOldest, nil
	case "latest":
		return sarama.OffsetNewest, nil
	case "offset":
		return start.Offsets[partition], nil
	}
	offset, err := kafka.GetOffset(topic, partition, start.TimestampMs)
	if err == nil && offset == -1 {
		return sarama.OffsetNewest, nil
	}
	return offset, err
}

func (client) Tail(from lines.Target, stop <-chan struct{}, parked func() error, emit func(lines.Record) error) error {
	config, err := settings(from)
	if err != nil {
		return err
	}
	consumer, err := sarama.NewConsumer([]string{from.Bootstrap}, config)
	if err != nil {
		return err
	}
	defer consumer.Close()
	// Asks for the end before it returns
	reading, err := consumer.ConsumePartition(from.Topic, 0, sarama.OffsetNewest)
	if err != nil {
		return err
	}
	defer reading.Close()
	if err := parked(); err != nil {
		return err
	}
	for {
		select {
		case message := <-reading.Messages():
			if err := emit(received(message)); err != nil {
				return err
			}
		case <-stop:
			return nil
		}
	}
}

func (client) Offsets(from lines.Target, start lines.Start) (map[int32]int64, error) {
	config, err := settings(from)
	if err != nil {
		return nil, err
	}
	kafka, err := sarama.NewClient([]string{from.Bootstrap}, config)
	if err != nil {
		return nil, err
	}
	defer kafka.Close()
	partitions, err := kafka.Partitions(from.Topic)
	if err != nil {
		return nil, err
	}
	found := map[int32]int64{}
	for _, partition := range partitions {
		offset, err := position(kafka, from.Topic, partition, start)
		// These two stand for themselves in a request to read and for a time in a request for offsets
		if err == nil && offset < 0 {
			offset, err = kafka.GetOffset(from.Topic, partition, offset)
		}
		if err != nil {
			return nil, err
		}
		found[partition] = offset
	}
	return found, nil
}
