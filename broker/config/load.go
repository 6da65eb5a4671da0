package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"weir/internal/kafka"
	"weir/internal/properties"
)

// Inputs is all that a Server is made of.
type Inputs struct {
	File      string   // server.properties; empty reads none
	Env       []string // as os.Environ gives it
	Overrides []string // of --override, each name=value
	Listen    string   // of --listen: addresses as host:port or NAME://host:port, separated by commas
	DataDir   string   // of --data-dir: directories separated by commas
	HTTP      string   // of --http: addresses as host:port, separated by commas
	Join      string   // of --join: likewise
	Host      Host
}

// Host is what the server has to know of the machine.
type Host struct {
	Name         string // advertised by listeners that bind every interface
	IPv6Loopback bool   // whether ::1 can be bound
}

// LocalHost asks the system.
func LocalHost() Host {
	h := Host{Name: "localhost"}
	if name, err := os.Hostname(); err == nil && name != "" {
		h.Name = name
	}
	if l, err := net.Listen("tcp6", "[::1]:0"); err == nil {
		h.IPv6Loopback = l.Close() == nil
	}
	return h
}

// Warnings are what the operator should hear although the server starts.
type Warnings struct {
	Unknown  []Setting // names that no table has; ignored
	NoEffect []Setting // those that Weir takes and does nothing with
	Notes    []string  // everything else, a line each
}

// Lines are the warnings as text, at most one line for each kind of setting and one a note.
func (w Warnings) Lines() []string {
	var lines []string
	if len(w.Unknown) > 0 {
		lines = append(lines, "unknown settings are ignored: "+joinSettings(w.Unknown))
	}
	if len(w.NoEffect) > 0 {
		lines = append(lines, "settings without effect in Weir: "+joinSettings(w.NoEffect))
	}
	return append(lines, w.Notes...)
}

// joinSettings names settings with where they were made, the file once.
func joinSettings(settings []Setting) string {
	var parts []string
	file := ""
	for _, s := range settings {
		where := s.Origin.String()
		if s.Origin.Kind == FromFile && s.Origin.Name == file {
			where = fmt.Sprintf("line %d", s.Origin.Line)
		} else if s.Origin.Kind == FromFile {
			file = s.Origin.Name
		}
		parts = append(parts, fmt.Sprintf("%s (%s)", s.Name, where))
	}
	return strings.Join(parts, ", ")
}

// Load reads what the operator gave. The order of precedence, lowest first: default, file, environment, overrides, flags.
// The error is a *SettingError or a *FileError and fits in one line.
func Load(in Inputs) (*Server, Warnings, error) {
	b := &builder{in: in, settings: make(map[string]Setting), server: &Server{}}
	if b.in.Host.Name == "" {
		b.in.Host.Name = "localhost"
	}
	if err := b.collect(); err != nil {
		return nil, Warnings{}, err
	}
	b.check()
	if b.err == nil { // what follows reads values and relies on their being valid one by one
		b.derive()
		b.crossCheck()
		b.warnNoEffect()
	}
	if b.err != nil {
		return nil, Warnings{}, b.err
	}
	b.server.fill()
	return b.server, b.warnings, nil
}

// builder is a Server in the making.
type builder struct {
	in       Inputs
	settings map[string]Setting // the winner for each name
	server   *Server
	warnings Warnings
	err      *SettingError // the first
}

// fail records that the setting of that name will not do.
func (b *builder) fail(name, reason, allowed string) {
	if b.err != nil {
		return
	}
	s, ok := b.settings[name]
	if !ok {
		s = Setting{Name: name}
	}
	b.err = &SettingError{s, reason, allowed}
}

// collect gathers the settings from all places, later ones over earlier ones.
func (b *builder) collect() error {
	if b.in.File != "" {
		if err := b.readFile(b.in.File); err != nil {
			return err
		}
	}
	for _, s := range envSettings(b.in.Env) {
		b.settings[s.Name] = s
	}
	for _, override := range b.in.Overrides {
		name, value, ok := strings.Cut(override, "=")
		s := Setting{strings.TrimSpace(name), value, Origin{Kind: FromOverride, Name: "--override"}}
		if !ok || s.Name == "" {
			return &SettingError{Setting{Name: "--override"}, fmt.Sprintf("%q names no setting with its value", override), "name=value"}
		}
		b.settings[s.Name] = s
	}
	if b.in.Listen != "" {
		b.settings["listeners"] = Setting{"listeners", namedEndpoints(b.in.Listen), Origin{Kind: FromFlag, Name: "--listen"}}
	}
	if b.in.DataDir != "" {
		b.settings["log.dirs"] = Setting{"log.dirs", b.in.DataDir, Origin{Kind: FromFlag, Name: "--data-dir"}}
	}
	if b.in.HTTP != "" {
		b.settings["weir.http.listeners"] = Setting{"weir.http.listeners", b.in.HTTP, Origin{Kind: FromFlag, Name: "--http"}}
	}
	if b.in.Join != "" {
		b.settings["weir.join"] = Setting{"weir.join", b.in.Join, Origin{Kind: FromFlag, Name: "--join"}}
	}
	return nil
}

// namedEndpoints puts the listener's name before addresses that were given without one.
func namedEndpoints(listen string) string {
	elements := splitList(javaTrim(listen))
	for i, e := range elements {
		if e != "" && !strings.Contains(e, "://") {
			elements[i] = "PLAINTEXT://" + e
		}
	}
	return strings.Join(elements, ",")
}

func (b *builder) readFile(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return &FileError{path, 0, err}
	}
	entries, err := properties.Parse(string(data))
	if bad := (*properties.SyntaxError)(nil); errors.As(err, &bad) {
		return &FileError{path, bad.Line, errors.New(bad.Reason)}
	}
	for _, p := range entries {
		b.settings[p.Key] = Setting{p.Key, p.Value, Origin{FromFile, path, p.Line}}
	}
	return nil
}

// ordered gives the settings in the order in which they are told of: as the file has them, then by name.
func (b *builder) ordered() []Setting {
	return slices.SortedFunc(maps.Values(b.settings), func(x, y Setting) int {
		return cmp.Or(cmp.Compare(x.Origin.Kind, y.Origin.Kind), cmp.Compare(x.Origin.Line, y.Origin.Line), cmp.Compare(x.Name, y.Name))
	})
}

// check validates every setting alone. Of several wrong ones the error names the first.
func (b *builder) check() {
	for _, s := range b.ordered() {
		d, ok := LookupBroker(s.Name)
		if !ok {
			b.warnings.Unknown = append(b.warnings.Unknown, s)
			continue
		}
		if _, err := d.parseStatic(s.Value); err != nil {
			reason := err.Error()
			var invalid *InvalidValueError
			if errors.As(err, &invalid) {
				reason = invalid.Reason
			}
			b.fail(s.Name, reason, allowed(d))
		}
	}
}

// warnNoEffect lists what was set in vain. Under a listener's prefix only the limit of a listener that is there counts.
func (b *builder) warnNoEffect() {
	limits := b.server.listenerLimits()
	for _, s := range b.ordered() {
		d, ok := LookupBroker(s.Name)
		if ok && (d.StanceOn(s.Name) != Implement || s.Name != d.Name && limits[s.Name] == "") {
			b.warnings.NoEffect = append(b.warnings.NoEffect, s)
		}
	}
}

// allowed describes what a row takes.
func allowed(d *Def) string {
	return strings.TrimSpace(d.Type.String() + " " + d.ValidValues())
}

// derive works out the settings that depend on others and on the machine, in an order in which each finds what it needs.
func (b *builder) derive() {
	b.server.settings = b.settings
	b.server.inForce = make(map[string]string)
	b.identity()
	b.dirs()
	b.quorum()
	b.join()
	b.listeners() // the warning depends on whether there are other nodes
	b.http()
	b.describe()
	b.server.LogLevel = logLevel(lookupEnv(b.in.Env, "KAFKA_LOG4J_ROOT_LOGLEVEL"))
}

// identity settles node.id with its old name, the roles and the cluster's id.
func (b *builder) identity() {
	node, hasNode := b.settings["node.id"]
	broker, hasBroker := b.settings["broker.id"]
	switch {
	case hasNode && hasBroker && b.server.value("node.id").num != b.server.value("broker.id").num:
		b.fail("broker.id", "`node.id` and `broker.id` must be set to the same value", "node.id alone")
	case hasNode:
		b.settings["broker.id"] = Setting{"broker.id", node.Value, node.Origin}
	case hasBroker:
		b.settings["node.id"] = Setting{"node.id", broker.Value, broker.Origin}
		if b.server.value("broker.id").num < 0 {
			b.fail("broker.id", "Value must be at least 0", "INT [0,...]")
		}
	default:
		b.server.inForce["broker.id"] = brokerIndex["node.id"].Default
	}
	b.server.NodeIDSet = hasNode || hasBroker
	roles := b.list("process.roles")
	b.server.Roles = Roles{Broker: slices.Contains(roles, "broker"), Controller: slices.Contains(roles, "controller")}
	if id := lookupEnv(b.in.Env, "CLUSTER_ID"); id != "" {
		if strings.ContainsFunc(id, func(r rune) bool { return !isClusterIDLetter(r) }) || len(id) > maxClusterIDLength {
			b.err = cmp.Or(b.err, &SettingError{Setting{"cluster id", id, Origin{FromEnv, "CLUSTER_ID", 0}},
				"not a cluster id", fmt.Sprintf("1 to %d of A-Z a-z 0-9 . _ -", maxClusterIDLength)})
		}
		b.server.ClusterID = id
	}
	if b.text("authorizer.class.name") != "" {
		b.fail("authorizer.class.name", "this version has no authorizer, so everybody could do everything all the same", "empty")
	}
}

// WithNodeID returns the settings of a node whose id nobody set, once it is known.
func (s *Server) WithNodeID(id kafka.BrokerID) *Server {
	known := *s
	known.NodeID = id
	known.inForce = maps.Clone(s.inForce)
	for _, name := range []string{"node.id", "broker.id"} {
		if _, set := s.settings[name]; !set {
			known.inForce[name] = strconv.Itoa(int(id))
		}
	}
	return &known
}

const maxClusterIDLength = 128 // Kafka's have 22 letters; the bound keeps files and frames sane

func isClusterIDLetter(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune("._-", r)
}

// dirs settles where data lies.
func (b *builder) dirs() {
	s := b.server
	switch s.DataDirs = b.list("log.dirs"); {
	case len(s.DataDirs) > 0:
	case len(b.list("log.dir")) > 0:
		s.DataDirs = b.list("log.dir")
	default:
		dir := defaultDataDir(b.in.Env)
		if dir == "" {
			b.fail("log.dirs", "neither XDG_DATA_HOME nor HOME says where data of this user belongs", "--data-dir")
		}
		s.DataDirs = []string{dir}
	}
	b.settle("log.dirs", strings.Join(s.DataDirs, ","))
	if s.MetadataDir = b.text("metadata.log.dir"); s.MetadataDir == "" {
		s.MetadataDir = s.DataDirs[0]
	}
}

// defaultDataDir is the folder weir in the user's data folder, by the XDG base directory specification: a relative
// XDG_DATA_HOME does not count.
func defaultDataDir(env []string) string {
	if dir := lookupEnv(env, "XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "weir")
	}
	if home := lookupEnv(env, "HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "weir")
	}
	return ""
}

// quorum reads who founds the cluster. Both settings may name the same nodes.
func (b *builder) quorum() {
	const votersName, serversName = "controller.quorum.voters", "controller.quorum.bootstrap.servers"
	voters, _ := parseVoters(votersName, b.list(votersName)) // checked with the value
	ids := make(map[kafka.BrokerID]bool)
	for _, v := range voters {
		if ids[v.ID] {
			b.fail(votersName, fmt.Sprintf("node %d stands twice", v.ID), "")
		}
		ids[v.ID] = true
	}
	node := b.server.value("node.id").num
	switch roles := b.server.Roles; {
	case len(voters) == 0 || ids[kafka.BrokerID(node)] == roles.Controller:
	case roles.Controller:
		b.fail(votersName, fmt.Sprintf("If process.roles contains the 'controller' role, the node id %d must be included in the set of voters", node), "")
	default:
		b.fail(votersName, fmt.Sprintf("If process.roles contains just the 'broker' role, the node id %d must not be included in the set of voters", node), "")
	}
	for _, server := range b.list(serversName) {
		host, port, _ := splitHostPort(server)
		v := Voter{kafka.NoBroker, host, port}
		if !slices.ContainsFunc(voters, func(o Voter) bool { return o.Address() == v.Address() }) {
			voters = append(voters, v)
		}
	}
	slices.SortFunc(voters, func(a, c Voter) int { return cmp.Compare(a.Address(), c.Address()) })
	b.server.Quorum.Voters = voters
	if !b.server.Roles.Controller && len(voters) == 0 && len(b.list("weir.join")) == 0 {
		b.fail("process.roles", "a node that is a broker alone must be told where the controllers are", "controller.quorum.bootstrap.servers")
	}
}

// join reads whose cluster the node joins.
func (b *builder) join() {
	const name = "weir.join"
	for _, entry := range b.list(name) {
		host, port, _ := splitHostPort(entry) // checked with the value
		b.server.Join = append(b.server.Join, Voter{Host: host, Port: port}.Address())
	}
	if len(b.server.Join) > 0 && len(b.server.Quorum.Voters) > 0 {
		b.fail(name, "a node joins the cluster of these, or founds one with the nodes of controller.quorum.voters or controller.quorum.bootstrap.servers; it is told both", "one of the two")
	}
}

// describe keeps what was worked out for settings that nobody made, so that DescribeConfigs reports what is in force.
func (b *builder) describe() {
	var bound, advertised []string
	for _, l := range b.server.Listeners {
		bound = append(bound, l.String())
		if a := l.advertised(); !l.Controller && !slices.Contains(advertised, a) {
			advertised = append(advertised, a)
		}
	}
	b.settle("listeners", strings.Join(bound, ","))
	b.settle("advertised.listeners", strings.Join(advertised, ","))
}

// settle gives a name its value in force where nobody set it.
func (b *builder) settle(name, value string) {
	if _, ok := b.settings[name]; !ok {
		b.server.inForce[name] = value
	}
}

func (b *builder) text(name string) string   { return b.server.value(name).str }
func (b *builder) list(name string) []string { return b.server.value(name).list }
