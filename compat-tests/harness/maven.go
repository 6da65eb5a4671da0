package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Classpath returns the jars that a pom.xml names. Maven resolves them once, and again when the file changes; the answer is
// kept in a folder below .build.
func Classpath(pomFile, folder string) (string, error) {
	pom, err := os.ReadFile(pomFile)
	if err != nil {
		return "", err
	}
	dir, err := BuildDir(folder)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(pom)
	file := filepath.Join(dir, "classpath-"+hex.EncodeToString(sum[:4]))
	if _, err := os.Stat(file); err != nil {
		cmd := exec.Command("mvn", "-q", "-B", "-f", pomFile, "dependency:build-classpath", "-Dmdep.outputFile="+file+".new")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("mvn: %w\n%.2000s", err, out)
		}
		if err := os.Rename(file+".new", file); err != nil {
			return "", err
		}
	}
	text, err := os.ReadFile(file)
	return string(text), err
}
