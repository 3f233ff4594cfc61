import type { Draft } from '../draft.ts';
import type { Forward, Labels } from '../entries.ts';
import type { Namespace } from '../names.ts';
import { RegistryError } from './error.ts';

/** A forward as it is registered. */
export interface ForwardInput {
  readonly name: string;
  readonly address: string;
  readonly namespace: Namespace;
  readonly labels: Labels;
  /** Empty for none. */
  readonly prefix: string;
}

/** Registers a forward of which nothing is known yet. RegistryError CONFLICT when the name is taken. */
export function addForward(draft: Draft, input: ForwardInput): Forward {
  if (draft.forwards.has(input.name)) throw new RegistryError('CONFLICT', `forward already exists: ${input.name}`);
  const forward: Forward = { ...input, source: draft.nextSource(), catalogues: [] };
  draft.putForward(forward);
  return forward;
}

/**
 * Makes the registry hold this forward as the bootstrap file has it: an equal one stays as it is, with all that is known
 * of it, one that differs is replaced (decisions 1.3).
 */
export function bootstrapForward(draft: Draft, input: ForwardInput): void {
  const known = draft.forwards.get(input.name);
  if (known && sameForward(known, input)) return;
  if (known) draft.removeForward(input.name);
  addForward(draft, input);
}

/** Removes a forward with all that it discovered (decisions 4.3). RegistryError NOT_FOUND. */
export function removeForward(draft: Draft, name: string): void {
  if (!draft.forwards.has(name)) throw new RegistryError('NOT_FOUND', `forward not found: ${name}`);
  draft.removeForward(name);
}

function sameForward(known: Forward, input: ForwardInput): boolean {
  const relevant = ({ address, namespace, prefix, labels }: ForwardInput): string =>
    JSON.stringify([address, namespace, prefix, Object.entries(labels).sort()]);
  return relevant(known) === relevant(input);
}
