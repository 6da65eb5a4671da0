package config

import (
	"strconv"
	"strings"
	"testing"

	"weir/internal/kafka"
)

func TestValidateBrokerAnswersAsKafka(t *testing.T) {
	for path, perBroker := range map[string]bool{"testdata/validate_broker.txt": true, "testdata/validate_broker_default.txt": false} {
		lines := recordedLines(t, path)
		if len(lines) < 40 {
			t.Errorf("%s: only %d cases", path, len(lines))
		}
		for _, l := range lines {
			f := strings.Split(l, "\t")
			configs := make(map[string]string)
			for pair := range strings.SplitSeq(f[0], ";") {
				name, value, _ := strings.Cut(pair, "=")
				configs[name] = value
			}
			err := ValidateBroker(configs, perBroker)
			message := ""
			if err != nil {
				message = err.Error()
			}
			if code := strconv.Itoa(int(kafka.CodeOf(err))); code != f[1] || message != f[2] {
				t.Errorf("%s: %s\n got %s %s\nwant %s %s", path, f[0], code, message, f[1], f[2])
			}
		}
	}
}
