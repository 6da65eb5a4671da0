package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/scripttest"
)

// The lifecycle in scripts. Commands, one a line:
//
//	begin                     the process starts
//	wait 2s                   time passes, with a step at each moment that Next names
//	publish INDEX [leaves=N]  this node has published an image; in it broker N is shutting down
//	alone, together           whether anybody else is in the cluster
//	see N[,N]                 brokers that this node found gone, of epoch 1
//	dir N                     a directory failed
//	stalled 30s               a disk has kept the broker waiting for so long
//	moved PORT                the broker's listener is elsewhere
//	stop                      a controlled shutdown begins
//	turn                      another controller
//	registered EPOCH          answers
//	granted [fenced] [go] [index=N]
//	refused CODE
//	lost                      no answer came
//
// What is put out is each command that is submitted, what changed, and what is warned of.
type lifeScript struct {
	t     *testing.T
	l     *lifecycle
	now   time.Time
	v     view
	out   strings.Builder
	state State
	up    bool
	ended bool
}

func TestLifecycle(t *testing.T) {
	scripttest.Run(t, func(t *testing.T) func(string) string {
		s := &lifeScript{t: t, now: start, v: view{image: metadata.Empty()}}
		o := &Options{Self: 1, ClusterID: "c1", Logger: slog.New(warnings{slog.DiscardHandler, s}), SelfFence: true, Registration: Registration{
			Listeners: []metadata.Endpoint{{Name: "PLAINTEXT", Port: 9092}}, Directories: []kafka.DirectoryID{{15: 201}, {15: 202}}, PreviousEpoch: -1,
		}}
		o.fill()
		o.LeaseLost = func(lost bool) { fmt.Fprintf(&s.out, "lease lost: %v\n", lost) }
		s.l = newLifecycle(o)
		return s.run
	})
}

// warnings has the script put out what is logged as a problem, without its attributes.
type warnings struct {
	slog.Handler
	s *lifeScript
}

func (w warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (w warnings) Handle(_ context.Context, r slog.Record) error {
	fmt.Fprintf(&w.s.out, "%v %s: %s\n", w.s.now.Sub(start), r.Level, r.Message)
	return nil
}

func (s *lifeScript) run(block string) string {
	s.out.Reset()
	for line := range strings.Lines(block) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		s.command(strings.Fields(line))
		s.step()
	}
	if s.out.Len() == 0 {
		return "nothing"
	}
	return s.out.String()
}

func (s *lifeScript) command(words []string) {
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	number := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			s.t.Fatal(err)
		}
		return n
	}
	switch words[0] {
	case "begin":
		s.l.begin(s.now)
	case "wait":
		d, err := time.ParseDuration(arg(1))
		if err != nil {
			s.t.Fatal(err)
		}
		s.wait(d)
	case "publish":
		s.publish(number(arg(1)), strings.TrimPrefix(arg(2), "leaves="))
	case "alone", "together":
		s.v.alone = words[0] == "alone"
	case "see":
		s.v.unreachable = nil
		for _, id := range strings.FieldsFunc(arg(1), func(r rune) bool { return r == ',' }) {
			s.v.unreachable = append(s.v.unreachable, controller.UnreachableBroker{Broker: kafka.BrokerID(number(id)), Epoch: 1})
		}
	case "dir":
		s.l.dirFailed(s.now, kafka.UUID{15: byte(number(arg(1)))})
	case "stalled":
		d, err := time.ParseDuration(arg(1))
		if err != nil {
			s.t.Fatal(err)
		}
		s.v.stalled = d
	case "moved":
		s.l.moved(s.now, []metadata.Endpoint{{Name: "PLAINTEXT", Port: uint16(number(arg(1)))}})
	case "stop":
		s.l.shutDown(s.now, s.v.alone)
	case "turn":
		s.l.newController(s.now)
	case "registered":
		s.answer(controller.RegisterBrokerReply{Epoch: kafka.BrokerEpoch(number(arg(1)))}, 0, nil)
	case "granted":
		reply, index := controller.BrokerHeartbeatReply{}, s.v.image.Index
		for _, w := range words[1:] {
			switch {
			case w == "fenced":
				reply.Fenced = true
			case w == "go":
				reply.ShouldShutDown = true
			default:
				index = number(strings.TrimPrefix(w, "index="))
			}
		}
		s.answer(reply, index, nil)
	case "refused":
		s.answer(nil, 0, kafka.Errorf(codes[arg(1)], "no"))
	case "lost":
		s.answer(nil, 0, errors.New("connection reset"))
	default:
		s.t.Fatal("no command", words[0])
	}
}

var codes = map[string]kafka.Code{}

func init() {
	for _, c := range []kafka.Code{kafka.NotController, kafka.StaleBrokerEpoch, kafka.BrokerIDNotRegistered, kafka.DuplicateBrokerRegistration,
		kafka.InconsistentClusterID, kafka.InvalidRegistration} {
		codes[c.String()] = c
	}
}

// publish makes an image with an index of its own, and a broker that leaves.
func (s *lifeScript) publish(index int64, leaves string) {
	img := *metadata.Empty()
	img.Index = index
	next := &img
	if leaves != "" {
		id, err := strconv.Atoi(leaves)
		if err != nil {
			s.t.Fatal(err)
		}
		if next, _, err = img.With([]metadata.Record{metadata.RegisterBrokerRecord{BrokerRegistration: metadata.BrokerRegistration{
			ID: kafka.BrokerID(id), Epoch: 1, InControlledShutdown: true}}}); err != nil {
			s.t.Fatal(err)
		}
	}
	next.Index = index
	s.v.image = next
}

func (s *lifeScript) wait(d time.Duration) {
	end := s.now.Add(d)
	for {
		next := s.l.Next()
		if next.IsZero() || next.After(end) {
			break
		}
		if next.After(s.now) {
			s.now = next
		}
		before := s.out.Len()
		s.step()
		if s.ended || s.out.Len() == before && !s.l.Next().After(s.now) && !s.l.Next().IsZero() {
			s.t.Fatalf("at %v: due, and nothing is done", s.now.Sub(start))
		}
		if s.l.asked != nil {
			fmt.Fprintln(&s.out, "(no answer yet)")
			break
		}
	}
	s.now = end
}

func (s *lifeScript) answer(reply controller.Reply, index int64, err error) {
	if s.l.asked == nil {
		s.t.Fatal("nothing was asked")
	}
	s.fatal(s.l.Answered(s.now, reply, index, err, s.v.alone))
}

func (s *lifeScript) fatal(err error) {
	if err != nil {
		s.ended = true
		fmt.Fprintf(&s.out, "%v fatal: %v\n", s.now.Sub(start), err)
	}
}

func (s *lifeScript) step() {
	if s.ended {
		return
	}
	cmd, err := s.l.Step(s.now, s.v)
	s.fatal(err)
	switch c := cmd.(type) {
	case controller.RegisterBroker:
		fmt.Fprintf(&s.out, "%v register port=%d previous=%d\n", s.now.Sub(start), c.Listeners[0].Port, c.PreviousEpoch)
	case controller.BrokerHeartbeat:
		fmt.Fprintf(&s.out, "%v heartbeat epoch=%d offset=%d", s.now.Sub(start), c.Epoch, c.MetadataOffset)
		for _, flag := range []struct {
			set  bool
			name string
		}{{c.WantFence, " fence"}, {c.WantShutDown, " shutdown"}} {
			if flag.set {
				s.out.WriteString(flag.name)
			}
		}
		for _, u := range c.Unreachable {
			fmt.Fprintf(&s.out, " gone=%d", u.Broker)
		}
		for _, d := range c.OfflineDirs {
			fmt.Fprintf(&s.out, " dir=%d", d[15])
		}
		s.out.WriteString("\n")
	}
	if s.l.state != s.state || s.l.up != s.up {
		s.state, s.up = s.l.state, s.l.up
		fmt.Fprintf(&s.out, "%v state %d up=%v\n", s.now.Sub(start), s.state, s.up)
	}
}
