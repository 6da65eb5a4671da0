package handler

import (
	"testing"

	"weir/protocol"
)

func TestEveryListedKeyHasAHandler(t *testing.T) {
	listed := make(map[int16]bool)
	for a := range protocol.APIs(protocol.ClientListener) {
		listed[a.Key] = true
		if table[a.Key] == nil {
			t.Errorf("%s (%d) is listed and has no handler", a.Name, a.Key)
		}
	}
	for key := range table {
		if !listed[key] {
			t.Errorf("key %d has a handler and is not listed", key)
		}
	}
}
