package demo

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
)

// customers is how many order things. A customer's orders are to arrive in the order in which they were placed.
const customers = 40

// order is the message of the demo.
type order struct {
	Customer string `json:"customer"`
	Number   uint64 `json:"number"` // Counts from 0 for each customer.
	Item     string `json:"item"`
	Quantity int    `json:"quantity"`
}

// newOrder is the n-th order of all.
func newOrder(n int64) order {
	items := [...]string{"tea", "silk", "porcelain", "ink", "paper"}
	return order{
		Customer: fmt.Sprintf("customer-%02d", n%customers),
		Number:   uint64(n / customers),
		Item:     items[n/customers%int64(len(items))],
		Quantity: int(n%9) + 1,
	}
}

func (o order) encode() []byte {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // Strings and numbers always have a JSON form.
	}
	return text
}

// fingerprint tells whether what arrived is what was produced.
func fingerprint(payload []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(payload) // A hash takes everything.
	return h.Sum64()
}
