import type { Evaluator, ExposePatch, ForwardHeadersPatch, Labels, ServiceInput } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';

/** The sections of a state file, in the order in which they are written. */
export const SECTIONS = ['namespaces', 'forwards', 'services', 'tools', 'evaluators'] as const;

/** One of {@link SECTIONS}. */
export type Section = (typeof SECTIONS)[number];

/** State described by state files. Sections that no file contains stay unchanged. */
export interface DesiredState {
  /** Possible mistakes in the files, each with its position. */
  readonly warnings: readonly string[];
  readonly sections: ReadonlySet<Section>;
  readonly namespaces: readonly DesiredNamespace[];
  readonly forwards: readonly DesiredForward[];
  readonly services: readonly DesiredService[];
  readonly tools: readonly DesiredTool[];
  readonly overrides: readonly DesiredOverrides[];
  /** In order of execution. */
  readonly evaluators: readonly DesiredEvaluator[];
}

/** Position in a file as `{file}:{line}:{column}`, computed on demand. */
interface Located {
  readonly position: () => string;
}

export interface DesiredNamespace extends Located {
  readonly name: string;
  readonly labels: Labels;
}

export interface DesiredForward extends Located {
  readonly name: string;
  readonly address: string;
  readonly namespace: string;
  readonly labels: Labels;
  /** Empty for none. */
  readonly prefix: string;
  /** Headers to set, and with null to remove; null removes all, undefined none. */
  readonly headers?: ForwardHeadersPatch | null | undefined;
  /** Changes of the exposed entries: undefined and missing members stay unchanged, null removes. */
  readonly expose?: ExposePatch | null | undefined;
  /** Undefined: the proxy of the environment of the service. */
  readonly proxy?: string | undefined;
  readonly compression?: boolean | undefined;
}

export interface DesiredEvaluator extends Located {
  readonly definition: Evaluator;
}

export interface DesiredService extends Located {
  readonly entry: ServiceInput;
}

/** A manually registered tool. */
export interface DesiredTool extends Located {
  readonly namespace: string;
  readonly name: string;
  /** All of its members, namespace and labels included, under canonical names. */
  readonly members: JsonObject;
}

/** Overrides of a discovered tool. Undefined and missing members follow the forward and the upstream. */
export interface Overrides {
  readonly name: string | undefined;
  readonly namespace: string | undefined;
  readonly labels: Labels;
  /** Undefined: unchanged. */
  readonly enabled: boolean | undefined;
  /** Members besides these; null removes one of the upstream's. */
  readonly members: JsonObject;
}

/** The desired overrides of one discovered tool. */
export interface DesiredOverrides extends Located, Overrides {
  readonly forward: string;
  /** The name that the upstream uses. */
  readonly upstreamName: string;
}
