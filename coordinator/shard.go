package coordinator

import "time"

// Shard is the state machine of one partition of a coordinator's topic. It is pure: what it is given is all it knows,
// and what it returns is all it does. One goroutine calls it.
//
// Hard state comes from records. Only Apply writes it, so that replaying the partition gives the same hard state as the
// live shard has. Soft state (joins that wait, timers, sessions) is written only by Step, and is lost when another
// broker takes the partition over.
type Shard interface {
	// Step decides. It reads all state and writes soft state only. The records of all earlier steps have been applied.
	Step(now time.Time, in Input) Output
	// Apply folds one record into hard state, in the order of the partition. It replies to nobody and sets no timers. An
	// error says that the record cannot be understood: while loading, the load fails; a live shard never gets one, since
	// it made the record itself.
	Apply(r Record) error
}

// Record is one record of a coordinator's topic. A nil Value is a tombstone. The bytes are the shard's to keep.
type Record struct {
	Key, Value []byte
	Timestamp  int64 // ms since the epoch
}

// Input is what a shard decides on: a *Call, a Loaded, a Fired, an Outcome, or what the shard's package declares.
type Input any

// Loaded is the first input of a shard: all records of the partition have been applied.
type Loaded struct{}

// Fired is a timer that was set and has come due.
type Fired struct{ Key any }

// Outcome tells what became of the records of an Output that had an After, and of what was appended before them. Err is
// nil when they are committed. Otherwise its code is COORDINATOR_NOT_AVAILABLE, or UNKNOWN_SERVER_ERROR where the records fit
// into no batch. Records that were appended and not committed in time stay applied, and may be committed yet: so an error
// says nothing about hard state, which the shard can see.
type Outcome struct {
	Of  Input
	Err error
}

// Output is what a Step wants done. Timers are set, whatever becomes of the records: they go with soft state. The runtime
// appends Records and applies them, or they fail and are not applied. Replies leave when the records, or whatever was
// appended before them, are committed, so that no answer shows what may still be lost; where the records fail, the
// replies of this Output are that error instead.
type Output struct {
	Records []Record // appended as one batch, or not at all
	Replies []Reply  // any number, also to calls of earlier steps
	Timers  []Timer
	// After, if not nil, comes back in an Outcome when Records are committed, or with the error when they are not. It does
	// not come back where the shard's life ends before: another broker leads, or the broker stops.
	After Input
}

// Reply answers a call, once.
type Reply struct {
	To *Call
	// Body is what the kind of request is answered with, or an error.
	Body any
}

// Timer sets the timer of a key anew, or cancels it where At is zero. A key is any comparable value; a shard has at most
// one timer of a key, and it fires once. A timer that is set or cancelled before its Fired is delivered does not fire.
type Timer struct {
	Key any
	At  time.Time
}

// Call is a request that a shard is asked to answer. A shard keeps the pointer until it replies; Body may alias memory
// that is the caller's until then, so what is kept longer, in records too, is cloned.
type Call struct {
	Body     any // a kmsg request, or a type of the shard's package
	ClientID string
	// ClientHost is the client's address in Kafka's form, "/127.0.0.1".
	ClientHost string

	// Done is called once, by any goroutine, with what Reply had as its body, or with an error: the one that Reply had, or
	// NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE where the shard could not be asked or its
	// records were not committed, UNKNOWN_SERVER_ERROR where they fit into no batch. It must not block, and may be called
	// before Submit returns.
	Done func(body any, err error)
}
