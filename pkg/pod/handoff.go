// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

// handOffFlags makes the supervisor wait for the files for which Tekton's entrypoint
// waits, because Tekton's entrypoint polls only once a second. Then Tekton's entrypoint
// polls once, and decides as usual. If a flag of Tekton's is unknown, only Tekton's
// entrypoint waits.
func handOffFlags(value string, c optionContext) (flags []string, _ error) {
	on, err := parseBool(value)
	if err != nil {
		return nil, err
	}
	step := c.step
	switch {
	case step == nil:
		return nil, nil
	case !on:
		if c.mayNotStart {
			flags = step.failureFlags(startFailureFlag)
		}
		return flags, nil
	}
	flags = append(step.waitFlags(), c.start...)
	if c.downward {
		flags = append(flags, waitCancelFlag+tektonCancel)
	}
	if len(step.waitFiles) > 0 && !c.exec {
		flags = append(flags, holdFlag+tektonLooks.String())
	}
	if step.breakpoint || c.exec {
		// At a breakpoint, the person who debugs decides whether the step has failed. And
		// a supervisor that is replaced by its command can't report a failure.
		return append(flags, step.failureFlags(startFailureFlag)...), nil
	}
	return append(flags, step.failureFlags(postFileFlag)...), nil
}

// waitFlags returns the flags for the files that a step waits for.
func (s *step) waitFlags() (flags []string) {
	if len(s.waitFiles) > 0 && s.credentials {
		// Tekton's entrypoint copies credentials there when it starts. A later or second
		// copy would undo the changes of earlier steps in that directory.
		flags = append(flags, waitUnlessSharedFlag+"HOME")
	}
	for _, path := range s.waitFiles {
		switch {
		case s.content:
			flags = append(flags, waitContentFlag+path, waitAbortFlag+path+errorSuffix)
		case s.breakpoint: // Tekton runs this step even after a failure before it
			flags = append(flags, waitEitherFlag+path)
		default:
			flags = append(flags, waitFileFlag+path, waitAbortFlag+path+errorSuffix)
		}
	}
	return flags
}

// failureFlags returns the flag by which the supervisor reports a failure in the step's
// post file, if the step has such a file.
func (s *step) failureFlags(flag string) []string {
	if s.postFile == "" {
		return nil
	}
	return []string{flag + s.postFile}
}
