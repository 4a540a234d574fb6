// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"github.com/entrypointer/entrypointer/pkg/lookup"
)

// Injector wraps pods. It is safe for concurrent use.
type Injector struct {
	// CopierImage is the image of the init container, pinned by digest.
	CopierImage string
	// EntrypointImage is the image that is mounted if the Policy says so, pinned by
	// digest. It contains the binary at /ko-app/entrypoint.
	EntrypointImage string
	// ClaimName is the name of the claim that is mounted if the Policy says so, in the pod's
	// namespace; "" if there is none. The claim holds this release's binaries at
	// [ClaimPath] and [ClaimPathWithLogs].
	ClaimName string
	// Lookup looks up the images of containers that set no command. If it is nil, pods
	// with such containers are refused.
	Lookup lookup.Lookuper
	// Kinds are the pods that are wrapped without asking; nil means [Kinds].
	Kinds []Kind
	// AllPods wraps all pods, unless a pod opts out.
	AllPods bool
	// Copiers are the images, pinned by digest, of the pods that fill claims. AllPods
	// leaves out pods that run only these images: other pods get their supervisor from
	// them.
	Copiers []string
	// Tools are the tools that pods may ask for. No two have the same name, and each
	// passes its Check.
	Tools []Tool
	// ToolRegistries restricts the tools of namespaces by the registries of their images.
	// The zero value allows all.
	ToolRegistries lookup.AllowList
	// Logs is the log service, nil without one.
	Logs *LogService
	// Version, if it isn't empty, ends the status annotation: the version of the injector.
	Version string
	// Policy is the operator's policy.
	Policy Policy
	// Defaults are options for pods that don't set them. Earlier elements take
	// precedence.
	Defaults []Defaults
}

// LogService describes the service that stores the output of containers with the option
// logs.
type LogService struct {
	// Address is the URL of the service: https://logs.entrypointer-logs.svc.
	Address string
	// IP is an address of the service for pods whose DNS doesn't resolve the name; "" if
	// it is unknown.
	IP string
	// CA identifies the CA of the service's certificates: sha256: and the hexadecimal
	// SHA-256 of the CA's public key.
	CA string
	// Audience is the audience of the tokens by which the service identifies pods.
	Audience string
	// CopierImage and EntrypointImage replace the Injector's images in pods with such
	// containers: they include the program that sends.
	CopierImage, EntrypointImage string
}

// A Tool is a program that an operator offers to pods. A container that asks for the tool
// has it in ToolsMountPath, under its name.
type Tool struct {
	Name string
	// Image is pinned by digest.
	Image string
	// Path is the program's path in the image.
	Path string
}
