package config

// Server is what the operator set for this process, read once at start and immutable from then on.
type Server struct {
	static map[string]string
}

// raw finds a value that was set statically. A nil Server has none.
func (s *Server) raw(name string) (string, bool) {
	if s == nil {
		return "", false
	}
	v, ok := s.static[name]
	return v, ok
}
