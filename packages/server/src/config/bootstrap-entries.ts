import { forwardInput, labels, namespaceName } from '@sluice/contract';
import { z } from 'zod';
import { DEFAULT_NAMESPACE, parseNamespace } from '../registry/names.ts';

/** The contract's rule, as the registry's type. */
const namespace = namespaceName.transform((name, context) => {
  const parsed = parseNamespace(name);
  if (parsed === undefined) {
    context.addIssue('is not a namespace name');
    return z.NEVER;
  }
  return parsed;
});

/**
 * An entry of `forwards` (decisions 1.3 and 2.4): what the management API takes, by the same rules, with the defaults
 * filled in. Members besides these are dropped.
 */
export const forwardEntry = z.object(
  {
    ...forwardInput.shape,
    namespace: namespace.default(DEFAULT_NAMESPACE),
    labels: labels.default({}),
  },
  { error: 'is not a map with name and address' },
);

/** An upstream MCP server to register. `prefix` is undefined for none. */
export type ForwardEntry = Readonly<z.output<typeof forwardEntry>>;

/** An entry of `namespaces` in its long form (decisions 1.3); the short form is the name alone. */
export const namespaceEntry = z.object(
  {
    name: namespace,
    /** Undefined: a namespace that exists keeps the labels it has. */
    labels: labels.optional(),
  },
  { error: 'is neither a name nor a map with name and labels' },
);

/** A namespace to create. */
export type NamespaceEntry = Readonly<z.output<typeof namespaceEntry>>;
