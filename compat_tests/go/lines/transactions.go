package lines

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Transaction is a transaction to send: its records, and how it ends. Offset is what it commits for the group, in
// partition 0 of the topic: the count of records of this transaction and of all before it.
type Transaction struct {
	Records []Record
	Offset  int64
	Commit  bool
}

// Transacting is a client with a transactional producer.
type Transacting interface {
	Client
	// Transact sends transactions until next returns io.EOF, and returns when the last one has ended.
	Transact(to Target, id, group string, next func() (Transaction, error)) error
}

// transactions reads records; a line with the text "commit" or "abort" ends the transaction of those before it.
func transactions(input io.Reader) func() (Transaction, error) {
	decoder := json.NewDecoder(input)
	sent := int64(0)
	return func() (Transaction, error) {
		var found Transaction
		for {
			var line json.RawMessage
			if err := decoder.Decode(&line); err != nil {
				return found, err
			}
			if bytes.HasPrefix(line, []byte("{")) {
				var record Record
				if err := json.Unmarshal(line, &record); err != nil {
					return found, err
				}
				found.Records = append(found.Records, record)
				sent++
				continue
			}
			var end string
			if err := json.Unmarshal(line, &end); err != nil {
				return found, err
			}
			if end != "commit" && end != "abort" {
				return found, fmt.Errorf("unknown end %q of a transaction: commit or abort", end)
			}
			found.Commit, found.Offset = end == "commit", sent
			return found, nil
		}
	}
}
