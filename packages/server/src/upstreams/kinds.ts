import { isDeepStrictEqual } from 'node:util';
import { BRIDGE_HINT, isStdioCommand } from '@sluice/contract/stdio-command';
import type { Forward } from '../registry/entries.ts';
import { mcpHttp } from './mcp/forward-connection.ts';
import type { ForwardTarget, UpstreamKind } from './upstream-kind.ts';

/** The kinds of upstreams. */
export const KINDS: readonly UpstreamKind[] = [mcpHttp];

/** The kinds of forwards, by the schemes of their addresses. */
export class ForwardKinds {
  readonly #byScheme = new Map<string, UpstreamKind>();

  /** Throws if two kinds have the same scheme. */
  constructor(kinds: readonly UpstreamKind[] = KINDS) {
    for (const kind of kinds) {
      for (const scheme of kind.schemes) {
        if (this.#byScheme.has(scheme)) throw new Error(`kind ${kind.name} has a scheme of another kind: ${scheme}`);
        this.#byScheme.set(scheme, kind);
      }
    }
  }

  /** Returns what is wrong with an address, as a predicate; undefined for a valid one. */
  problem(address: string): string | undefined {
    const kind = this.#find(address);
    if (kind) return kind.validate(address);
    const names = [...this.#byScheme.keys()].map((scheme) => scheme.slice(0, -1));
    const problem = `must be an ${names.slice(0, -1).join(', ')} or ${names.at(-1)} URL`;
    return isStdioCommand(address) ? `${problem}; ${BRIDGE_HINT}` : problem;
  }

  /** The kind of a forward, whose address is valid. */
  of({ address }: Pick<Forward, 'address'>): UpstreamKind {
    const kind = this.#find(address);
    if (!kind) throw new Error('there is no kind for the address of the forward');
    return kind;
  }

  /** Text of what requests to a forward depend on. */
  connectionKey(forward: ForwardTarget): string {
    return this.of(forward).connectionKey(forward);
  }

  /** Whether a change of a forward requires a discovery: it is new, is reached in another way, or exposes other entries. */
  needsDiscovery(before: Forward | undefined, after: Forward): boolean {
    return (
      before?.registrationId !== after.registrationId ||
      this.connectionKey(before) !== this.connectionKey(after) ||
      !isDeepStrictEqual(before.expose, after.expose)
    );
  }

  #find(address: string): UpstreamKind | undefined {
    const [scheme = ''] = /^[a-z][a-z\d+.-]*:/i.exec(address) ?? [];
    return this.#byScheme.get(scheme.toLowerCase());
  }
}
