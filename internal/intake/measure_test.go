// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package intake

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
)

// repeated is how many entries a list or map has in a document of the tests below.
const repeated = 1_000

// documents returns JSON documents that are decoded into a type, each with one list or
// map that is as large as can be made with few bytes, by the path of that list or map. Of
// lists and maps of the same type, there is one.
func documents(of reflect.Type) map[string]string {
	found := map[string]string{}
	collect(of, "", func(inner string) string { return inner }, found, map[reflect.Type]bool{})
	return found
}

// collect adds the documents of a type. within makes a document of a value of that type.
func collect(of reflect.Type, path string, within func(string) string, found map[string]string, seen map[reflect.Type]bool) {
	if seen[of] || of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Uint8 {
		return
	}
	seen[of] = true
	switch of.Kind() {
	case reflect.Pointer:
		collect(of.Elem(), path, within, found, seen)
	case reflect.Slice:
		for name, element := range map[string]string{" of {}": `{}`, " of all": everything(of.Elem(), 3), " of texts": `""`} {
			found[path+name] = within(`[` + strings.TrimSuffix(strings.Repeat(element+",", repeated), ",") + `]`)
		}
		collect(of.Elem(), path, func(inner string) string { return within(`[` + inner + `]`) }, found, seen)
	case reflect.Map:
		for name, element := range map[string]string{" of texts": `""`, " of numbers": `"1"`, " of {}": `{}`, " of []": `[]`} {
			var members strings.Builder
			for i := range repeated {
				fmt.Fprintf(&members, `"%d":%s,`, i, element)
			}
			found[path+name] = within(`{` + strings.TrimSuffix(members.String(), ",") + `}`)
		}
	case reflect.Struct:
		for _, field := range reflect.VisibleFields(of) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			collect(field.Type, path+"."+name, func(inner string) string { return within(`{"` + name + `":` + inner + `}`) }, found, seen)
		}
	}
}

// everything is an object that has all objects and maps that its type can have.
func everything(of reflect.Type, depth int) string {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return `""`
	}
	if depth == 0 {
		return `{}`
	}
	var fields []string
	for _, field := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		for _, value := range []string{everything(field.Type, depth-1), `{"a":"1"}`, `{"a":{}}`} {
			if value != `""` && json.Unmarshal([]byte(value), reflect.New(field.Type).Interface()) == nil {
				fields = append(fields, `"`+name+`":`+value)
				break
			}
		}
	}
	return `{` + strings.Join(fields, ",") + `}`
}

// heap returns the bytes that are in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// decodedSize returns the bytes that an object and a copy of it take. Servers of earlier
// tests may take some meanwhile, so the least of three counts.
func decodedSize(t *testing.T, of reflect.Type, document string) int64 {
	t.Helper()
	least := int64(math.MaxInt64)
	for range 3 {
		before := heap()
		value := reflect.New(of).Interface().(kruntime.Object)
		require.NoError(t, json.Unmarshal([]byte(document), value))
		held := []any{value, value.DeepCopyObject()}
		least = min(least, heap()-before)
		runtime.KeepAlive(held)
	}
	return least
}

func TestNothingOfAnObjectTakesMoreMemoryThanIsCounted(t *testing.T) {
	decoded := 0
	for _, object := range []kruntime.Object{&corev1.Pod{}, &corev1.Namespace{}, &corev1.ConfigMap{}, &admissionv1.AdmissionReview{}} {
		of := reflect.TypeOf(object).Elem()
		for path, document := range documents(of) {
			counted, err := measure([]byte(document))
			require.NoError(t, err, path)
			if json.Unmarshal([]byte(document), reflect.New(of).Interface()) != nil {
				continue // another kind of value
			}
			decoded++
			// While a list grows, its former array is there as well. The text is there five
			// times: as it came, in two buffers of knative.dev/pkg, decoded, and in the answer.
			took := decodedSize(t, of, document)*5/4 + 5*int64(len(document))
			if took > counted {
				t.Errorf("%v%s: %d bytes become %d, and %d are counted", of, path, len(document), took, counted)
			}
		}
	}
	require.Greater(t, decoded, 100)
}

// ordinaryPod has ten containers with twenty variables each.
func ordinaryPod(tb testing.TB) []byte {
	tb.Helper()
	pod := corev1.Pod{}
	for i := range 10 {
		c := corev1.Container{Name: fmt.Sprint("step-", i), Image: "busybox", Command: []string{"/tekton/bin/entrypoint"}}
		for j := range 20 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprint("E", j), Value: "value"})
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: fmt.Sprint("v", j), MountPath: fmt.Sprint("/v/", j)})
			c.Args = append(c.Args, "-argument")
		}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	document, err := json.Marshal(pod)
	require.NoError(tb, err)
	return document
}

func TestANamespaceCanHaveManyOrdinaryPodsUnderWay(t *testing.T) {
	counted, err := measure(ordinaryPod(t))
	require.NoError(t, err)
	require.Less(t, counted, int64(decodedBytesOfNamespace/15))
}

// Beside what is measured for: encoding/json decodes a pod.
func BenchmarkAPodIsMeasuredAndDecoded(b *testing.B) {
	document := ordinaryPod(b)
	b.Run("measured", func(b *testing.B) {
		for b.Loop() {
			if _, err := measure(document); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decoded", func(b *testing.B) {
		for b.Loop() {
			if err := json.Unmarshal(document, &corev1.Pod{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func FuzzWhatIsMeasuredIsWhatCanBeDecoded(f *testing.F) {
	for _, document := range []string{`{}`, `[1,2,{"a":null}]`, "\"\xff\"", ` 1 `, `1 2`, `{"a":[}`, `{"a" 1}`, `nul`, `"\ud800"`} {
		f.Add([]byte(document))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		counted, err := measure(document)
		if err == nil && counted < int64(len(document)) {
			t.Errorf("%d bytes are counted as %d", len(document), counted)
		}
		var value any
		valid := json.Unmarshal(document, &value) == nil
		if valid && len(document) < maxDepth && err != nil && !strings.Contains(err.Error(), "duplicate") {
			t.Errorf("%q is refused: %v", document, err)
		}
	})
}
