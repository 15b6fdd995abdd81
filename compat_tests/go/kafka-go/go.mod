module headgate.test/kafka-go

go 1.26.0

require (
	github.com/segmentio/kafka-go v0.4.51
	headgate.test/lines v0.0.0
)

require (
	github.com/klauspost/compress v1.15.9 // indirect
	github.com/pierrec/lz4/v4 v4.1.15 // indirect
)

replace headgate.test/lines => ../lines
