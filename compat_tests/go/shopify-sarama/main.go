// sarama as it was, driven by the command line of headgate.test/lines: v1.19.0, or v1.10.1 with the tag v1_10 and
// the modules of v1.10.mod. What only the newer one has is in groups.go and recent.go, what stands for it in v1_10.go.
package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/Shopify/sarama"
	"headgate.test/lines"
)

type client struct{}

func main() { lines.Main(client{}) }

// settings asks for the version to speak; a producer and a consumer of it know by themselves which requests it has.
func settings(target lines.Target) (*sarama.Config, error) {
	config := sarama.NewConfig()
	config.ClientID = "compat"
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	var err error
	config.Version, err = version(target.Protocol)
	return config, err
}

func (client) Produce(to lines.Target, codec string, next func() (lines.Record, error)) error {
	compression, known := codecs[codec]
	if !known {
		return fmt.Errorf("unknown codec %q", codec)
	}
	config, err := settings(to)
	if err != nil {
		return err
	}
	config.Producer.Compression = compression
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Flush.Frequency = 5 * time.Millisecond
	config.Producer.RequiredAcks = sarama.WaitForAll
	producer, err := sarama.NewAsyncProducer([]string{to.Bootstrap}, config)
	if err != nil {
		return err
	}
	for record, err := next(); ; record, err = next() {
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(err, producer.Close())
		}
		select {
		case producer.Input() <- toSend(to.Topic, record):
		case failed := <-producer.Errors():
			return errors.Join(failed, producer.Close())
		}
	}
	// Close flushes, and returns what failed
	return producer.Close()
}

func toSend(topic string, record lines.Record) *sarama.ProducerMessage {
	message := &sarama.ProducerMessage{Topic: topic, Partition: record.Partition}
	// An Encoder of nil bytes would be an empty key and not none
	if record.Key != nil {
		message.Key = sarama.ByteEncoder(record.Key)
	}
	if record.Value != nil {
		message.Value = sarama.ByteEncoder(record.Value)
	}
	addRecent(message, record)
	return message
}

func received(message *sarama.ConsumerMessage) lines.Record {
	return lines.Record{
		Partition:   message.Partition,
		Offset:      message.Offset,
		TimestampMs: lines.Milliseconds(message.Timestamp),
		Key:         message.Key,
		Value:       message.Value,
		Headers:     headers(message),
	}
}

func (client) Read(from lines.Target, count int, emit func(lines.Record) error) error {
	config, err := settings(from)
	if err != nil {
		return err
	}
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
	return read(kafka, from.Topic, first, count, func(message *sarama.ConsumerMessage) error {
		return emit(received(message))
	})
}

// read hands on so many records of what follows the offsets.
func read(kafka sarama.Client, topic string, first map[int32]int64, count int, take func(*sarama.ConsumerMessage) error) error {
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
	deadline := time.After(lines.Limit)
	for taken := 0; taken < count; taken++ {
		select {
		case message := <-messages:
			if err := take(message); err != nil {
				return err
			}
		case err := <-failures:
			return err
		case <-deadline:
			return lines.Late(taken)
		}
	}
	return nil
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
