declare const brand: unique symbol;

/** A valid namespace name (specification, "Namespace"). Made only by {@link parseNamespace}. */
export type Namespace = string & { readonly [brand]: 'Namespace' };

const NAMESPACE = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/;

/** The name as a namespace, or undefined when it breaks the rule: 1 to 63 of `a-z 0-9 -`, a letter or digit at both ends. */
export function parseNamespace(name: string): Namespace | undefined {
  return NAMESPACE.test(name) ? (name as Namespace) : undefined;
}

/** The namespace that always exists, and that entries go to when they name none. */
export const DEFAULT_NAMESPACE = 'default' as Namespace;
