package config

import (
	"slices"
	"strings"
	"testing"
)

func TestHTTPListeners(t *testing.T) {
	for name, test := range map[string]struct {
		flag     string
		override string
		want     []string
		exposed  string // addresses in the warning; empty: none
	}{
		"off by default":         {},
		"a flag":                 {flag: "127.0.0.1:9644", want: []string{"127.0.0.1:9644"}},
		"a setting":              {override: "localhost:0, [::1]:9644,", want: []string{"localhost:0", "[::1]:9644"}},
		"the flag over it":       {flag: "127.0.0.1:1", override: "127.0.0.1:2", want: []string{"127.0.0.1:1"}},
		"any interface":          {flag: ":9644", want: []string{":9644"}, exposed: "http://:9644"},
		"one of two is reached":  {flag: "localhost:1,0.0.0.0:2", want: []string{"localhost:1", "0.0.0.0:2"}, exposed: "http://0.0.0.0:2"},
		"an address of the host": {flag: "metrics.test:1", want: []string{"metrics.test:1"}, exposed: "http://metrics.test:1"},
	} {
		in := Inputs{Listen: "127.0.0.1:0", DataDir: "/d", HTTP: test.flag}
		if test.override != "" {
			in.Overrides = []string{"weir.http.listeners=" + test.override}
		}
		s, warnings, err := Load(in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !slices.Equal(s.HTTPListeners, test.want) {
			t.Errorf("%s: %q, want %q", name, s.HTTPListeners, test.want)
		}
		text := strings.Join(warnings.Lines(), "\n")
		if told := strings.Contains(text, "everybody who can reach "+test.exposed+" can read metrics"); told != (test.exposed != "") {
			t.Errorf("%s: warnings %q, want one of %q", name, text, test.exposed)
		}
	}
	for flag, want := range map[string]string{
		"9644":            "--http: weir.http.listeners=9644: 9644 is no address (allowed: host:port, ...)",
		"127.0.0.1":       "127.0.0.1 is no address",
		"localhost:http":  "localhost:http is no address",
		"localhost:70000": "localhost:70000 is no address",
		"http://h:1":      "http://h:1 is no address",
	} {
		_, _, err := Load(Inputs{Listen: "127.0.0.1:0", DataDir: "/d", HTTP: flag})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", flag, err, want)
		}
	}
}
