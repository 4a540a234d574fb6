// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAContainerThatNoPodHasIsAnErrorThatNamesThoseThatAreThere(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(c *cluster)
		asked   string
		says    string
	}{
		"misspelt, and of a pod that is gone":  {func(c *cluster) { c.gone = true; c.stream("p", "main", "1", "stdout", "x\n") }, "mian", `pod/p in namespace "tenant": there is no container "mian": use main; did you mean "main"?`},
		"misspelt, and of a pod that is new":   {func(c *cluster) { c.specs["p"] = sending("web") + "," + sending("db") }, "weeb", `there is no container "weeb": use db or web; did you mean "web"?`},
		"a step by its name in the Task":       {func(c *cluster) { c.specs["p"] = sending("step-build") + "," + sending("step-test") }, "test", `use step-build or step-test; did you mean "step-test"?`},
		"like no other":                        {func(c *cluster) { c.stream("p", "main", "1", "events", "{}\n") }, "proxy", `there is no container "proxy": use main`},
		"of a tenant who writes names himself": {func(c *cluster) { c.stream("p", "\x1b[2J\n", "1", "stdout", "x\n") }, "main", `use \x1b[2J\n`},
		"one of very many": {func(c *cluster) {
			for at := range mostNamed + 5 {
				c.stream("p", fmt.Sprintf("c%02d", at), "1", "stdout", "x\n")
			}
		}, "main", "c18, c19 or another one"},
		"there, and silent":                 {func(c *cluster) { c.specs["p"] = sending("main") }, "main", `the log service has no logs of container "main" of pod/p`},
		"there, and run before the others":  {func(c *cluster) { c.specs["p"], c.inits["p"] = sending("main"), `{"name":"init"}` }, "init", `the log service has no logs of container "init" of pod/p`},
		"of a pod that nobody knows at all": {func(c *cluster) { c.gone = true }, "main", `the log service has no logs of container "main" of pod/p`},
	} {
		for _, follow := range []bool{false, true} {
			c := newCluster(t)
			test.prepare(c)
			c.ends("Succeeded")
			_, err := c.followed("p", func(o *Options) { o.Container, o.Follow = test.asked, follow })
			require.ErrorContains(t, err, test.says, name)
		}
	}
}

// A follower would wait for it until the pod ends.
func TestAFollowerOfARunningPodIsToldThatTheContainerIsWrong(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.specs["p"] = sending("main")
	_, err := c.followed("p", func(o *Options) { o.Container = "mian" })
	require.ErrorContains(t, err, `did you mean "main"?`)
}
