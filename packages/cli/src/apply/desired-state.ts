import type { Labels, ServiceInput } from '@sluice/contract';
import type { JsonObject } from '@sluice/protocol/json/parse';

/** The sections of a state file, in the order in which they are written. */
export const SECTIONS = ['namespaces', 'forwards', 'services', 'tools'] as const;

/** One of {@link SECTIONS}. */
export type Section = (typeof SECTIONS)[number];

/** What state files say there shall be. Of a section that no file has nothing is said: what there is of it stays. */
export interface DesiredState {
  /** What is in the files and may be meant otherwise, each with its place. */
  readonly warnings: readonly string[];
  readonly sections: ReadonlySet<Section>;
  readonly namespaces: readonly DesiredNamespace[];
  readonly forwards: readonly DesiredForward[];
  readonly services: readonly DesiredService[];
  readonly tools: readonly DesiredTool[];
  readonly overrides: readonly DesiredOverrides[];
}

/** Where an entry stands, as `{file}:{line}:{column}`. Found only when it is asked for. */
interface Located {
  readonly position: () => string;
}

/** A namespace that there shall be. */
export interface DesiredNamespace extends Located {
  readonly name: string;
  readonly labels: Labels;
}

/** A forward that there shall be. */
export interface DesiredForward extends Located {
  readonly name: string;
  readonly address: string;
  readonly namespace: string;
  readonly labels: Labels;
  /** Empty for none. */
  readonly prefix: string;
}

/** A capability service that there shall be. */
export interface DesiredService extends Located {
  readonly entry: ServiceInput;
}

/** A hand-made tool that there shall be. */
export interface DesiredTool extends Located {
  readonly namespace: string;
  readonly name: string;
  /** All of its members, namespace and labels included, under canonical names. */
  readonly members: JsonObject;
}

/** What somebody wants of a discovered tool. What is undefined, or is no member, follows the forward and the upstream. */
export interface Overrides {
  readonly name: string | undefined;
  readonly namespace: string | undefined;
  readonly labels: Labels;
  /** Members besides these; null takes one of the upstream's away. */
  readonly members: JsonObject;
}

/** What a discovered tool shall be. */
export interface DesiredOverrides extends Located, Overrides {
  readonly forward: string;
  /** The name that the upstream uses. */
  readonly upstreamName: string;
}
