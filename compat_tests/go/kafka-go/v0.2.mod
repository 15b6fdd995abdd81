// The old version's modules, of the files that have its tag: GOFLAGS=-tags=v0_2 go mod tidy -modfile=v0.2.mod
module headgate.test/kafka-go

go 1.26.0

require (
	github.com/segmentio/kafka-go v0.2.0
	headgate.test/lines v0.0.0
)

require (
	github.com/golang/snappy v1.0.0 // indirect
	github.com/pierrec/lz4 v2.6.1+incompatible // indirect
	golang.org/x/net v0.62.0 // indirect
)

replace headgate.test/lines => ../lines
