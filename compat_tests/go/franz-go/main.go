// franz-go, driven by the command line of headgate.test/lines.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/kerberos"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
	"headgate.test/lines"
)

// By default it waits seconds before it asks again where the leaders are.
const metadataMinAge = 250 * time.Millisecond

type franz struct{}

func main() { lines.Main(franz{}) }

func newClient(target lines.Target, options ...kgo.Opt) (*kgo.Client, error) {
	options = append(options, kgo.SeedBrokers(target.Bootstrap), kgo.MetadataMinAge(metadataMinAge))
	if target.TLS != nil {
		options = append(options, kgo.DialTLSConfig(target.TLS))
	}
	if target.Login != nil {
		login, err := mechanism(target.Login)
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.SASL(login))
	}
	if target.Isolation == "read_committed" {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if target.Protocol != "" {
		versions := kversion.FromString(target.Protocol)
		if versions == nil {
			return nil, fmt.Errorf("unknown version of Kafka: %q", target.Protocol)
		}
		options = append(options, kgo.MaxVersions(versions))
		if !versions.HasKey(kmsg.InitProducerID.Int16()) {
			options = append(options, kgo.DisableIdempotentWrite())
		}
	}
	client, err := kgo.NewClient(options...)
	if err == nil && target.Login != nil {
		// It would try again for ever
		err = client.Ping(context.Background())
	}
	return client, err
}

func mechanism(login *lines.Login) (sasl.Mechanism, error) {
	switch login.Mechanism {
	case "PLAIN":
		return plain.Auth{User: login.User, Pass: login.Password}.AsMechanism(), nil
	case "SCRAM-SHA-256":
		return scram.Auth{User: login.User, Pass: login.Password, IsToken: login.IsDelegationToken != ""}.AsSha256Mechanism(), nil
	case "SCRAM-SHA-512":
		return scram.Auth{User: login.User, Pass: login.Password, IsToken: login.IsDelegationToken != ""}.AsSha512Mechanism(), nil
	case "GSSAPI":
		return gssapi(login)
	}
	return oauth.Auth{Token: login.Token}.AsMechanism(), nil
}

func gssapi(login *lines.Login) (sasl.Mechanism, error) {
	settings, err := config.Load(login.Kerberos)
	if err != nil {
		return nil, err
	}
	keys, err := keytab.Load(login.KeyTable)
	if err != nil {
		return nil, err
	}
	name, realm := login.Principal()
	user := client.NewWithKeytab(name, realm, keys, settings, client.DisablePAFXFAST(true))
	return kerberos.Auth{Client: user, Service: lines.Service, PersistAfterAuth: true}.AsMechanism(), nil
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

func (franz) Produce(to lines.Target, codec string, next func() (lines.Record, error)) error {
	compression, known := codecs[codec]
	if !known {
		return fmt.Errorf("unknown codec %q", codec)
	}
	client, err := newClient(
		to,
		kgo.DefaultProduceTopic(to.Topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(compression),
		kgo.ProducerLinger(5*time.Millisecond),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	var failure error
	var once sync.Once
	failed := func(_ *kgo.Record, err error) {
		if err != nil {
			once.Do(func() { failure = err })
		}
	}
	for record, err := next(); ; record, err = next() {
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		client.Produce(context.Background(), toSend(record), failed)
	}
	ctx, cancel := context.WithTimeout(context.Background(), lines.Limit)
	defer cancel()
	if err := client.Flush(ctx); err != nil {
		return err
	}
	return failure
}

func toSend(record lines.Record) *kgo.Record {
	sent := &kgo.Record{
		Partition: record.Partition,
		Timestamp: time.UnixMilli(record.TimestampMs),
		Key:       record.Key,
		Value:     record.Value,
	}
	for _, header := range record.Headers {
		sent.Headers = append(sent.Headers, kgo.RecordHeader{Key: header.Name, Value: header.Value})
	}
	return sent
}

func received(record *kgo.Record) lines.Record {
	found := lines.Record{
		Partition:   record.Partition,
		Offset:      record.Offset,
		TimestampMs: lines.Milliseconds(record.Timestamp),
		Key:         record.Key,
		Value:       record.Value,
		Headers:     []lines.Header{},
	}
	for _, header := range record.Headers {
		found.Headers = append(found.Headers, lines.Header{Name: header.Key, Value: header.Value})
	}
	return found
}

func (franz) Consume(from lines.Target, limits map[int32]int64, start lines.Start, emit func(lines.Record) error) error {
	partitions := map[int32]kgo.Offset{}
	for partition := range limits {
		partitions[partition] = position(start, partition)
	}
	client, err := newClient(
		from,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{from.Topic: partitions}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), lines.Limit)
	defer cancel()
	left := lines.Waiting(limits)
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return left.Late()
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		for record := range fetches.RecordsAll() {
			if left.Take(record.Partition) {
				if err := emit(received(record)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func position(start lines.Start, partition int32) kgo.Offset {
	switch start.At {
	case "offset":
		return kgo.NewOffset().At(start.Offsets[partition])
	case "time":
		return kgo.NewOffset().AfterMilli(start.TimestampMs)
	case "latest":
		return kgo.NewOffset().AtEnd()
	}
	return kgo.NewOffset().AtStart()
}

// firstFetch tells when the first Fetch request was written: the position is known by then, and the long poll begins.
type firstFetch struct {
	once   sync.Once
	parked func()
}

func (hook *firstFetch) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == kmsg.Fetch.Int16() && err == nil {
		hook.once.Do(hook.parked)
	}
}

func (franz) Tail(from lines.Target, stop <-chan struct{}, parked func() error, emit func(lines.Record) error) error {
	written := make(chan struct{})
	end := map[string]map[int32]kgo.Offset{from.Topic: {0: kgo.NewOffset().AtEnd()}}
	client, err := newClient(
		from,
		kgo.ConsumePartitions(end),
		kgo.WithHooks(&firstFetch{parked: func() { close(written) }}),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-stop
		cancel()
	}()
	select {
	case <-written:
	case <-stop:
		return nil
	}
	if err := parked(); err != nil {
		return err
	}
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err := fetches.Err(); err != nil {
			return err
		}
		for record := range fetches.RecordsAll() {
			if err := emit(received(record)); err != nil {
				return err
			}
		}
	}
}

func (franz) Offsets(from lines.Target, start lines.Start) (map[int32]int64, error) {
	client, err := newClient(from)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), lines.Limit)
	defer cancel()
	listed, err := list(ctx, kadm.NewClient(client), from.Topic, start)
	if err = errors.Join(err, listed.Error()); err != nil {
		return nil, err
	}
	found := map[int32]int64{}
	listed.Each(func(one kadm.ListedOffset) { found[one.Partition] = one.Offset })
	return found, nil
}

func list(ctx context.Context, admin *kadm.Client, topic string, start lines.Start) (kadm.ListedOffsets, error) {
	switch start.At {
	case "time":
		return admin.ListOffsetsAfterMilli(ctx, start.TimestampMs, topic)
	case "latest":
		return admin.ListEndOffsets(ctx, topic)
	case "earliest":
		return admin.ListStartOffsets(ctx, topic)
	}
	return nil, fmt.Errorf("the broker is not asked for %q", start.At)
}
