// The old version's modules, of the files that have its tag: GOFLAGS=-tags=v1_10 go mod tidy -modfile=v1.10.mod
module headgate.test/shopify-sarama

go 1.26.0

require (
	github.com/Shopify/sarama v1.10.1
	headgate.test/lines v0.0.0
)

require (
	github.com/Shopify/toxiproxy v2.1.4+incompatible // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/eapache/go-resiliency v1.7.0 // indirect
	github.com/eapache/go-xerial-snappy v0.0.0-20160609142408-bb955e01b934 // indirect
	github.com/eapache/queue v1.1.0 // indirect
	github.com/golang/snappy v0.0.4 // indirect
	github.com/klauspost/crc32 v1.3.0 // indirect
	golang.org/x/sys v0.34.0 // indirect
)

replace headgate.test/lines => ../lines
