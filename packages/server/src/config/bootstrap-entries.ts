import { z } from 'zod';
import { DEFAULT_NAMESPACE, parseNamespace } from '../registry/names.ts';

const text = z.string({ error: (issue) => (issue.input === undefined ? 'is missing' : 'is not a string') });

const labels = z.record(z.string(), z.string({ error: 'is not a string; quote it' }), {
  error: 'is not a map of strings',
});

/** Name of a namespace (specification, "Namespace"). */
const namespaceName = text.transform((name, context) => {
  const namespace = parseNamespace(name);
  if (namespace === undefined) {
    context.addIssue('is not 1 to 63 lowercase letters, digits and hyphens, with a letter or digit at both ends');
    return z.NEVER;
  }
  return namespace;
});

/** Name of a forward (decisions 2.2): trimmed, 1 to 256 characters, none of them a control character. */
const forwardName = text.trim().refine((name) => name !== '' && [...name].length <= 256 && !/\p{Cc}/u.test(name), {
  error: 'is not 1 to 256 characters without control characters',
});

const forwardAddress = text
  .trim()
  .refine((address) => /^https?:\/\/[^/?#]/i.test(address) && !/\s/.test(address) && URL.canParse(address), {
    error: 'is not an http or https URL',
  });

/** An entry of `forwards` (decisions 1.3 and 2.4). Members besides these are dropped. */
export const forwardEntry = z.object(
  {
    name: forwardName,
    address: forwardAddress,
    namespace: namespaceName.default(DEFAULT_NAMESPACE),
    labels: labels.default({}),
    /** Undefined for none. */
    prefix: text.regex(/^[A-Za-z0-9_.-]{1,32}$/, 'is not 1 to 32 of A-Z a-z 0-9 _ . -').optional(),
  },
  { error: 'is not a map with name and address' },
);

/** An upstream MCP server to register. */
export type ForwardEntry = Readonly<z.output<typeof forwardEntry>>;

/** An entry of `namespaces` in its long form (decisions 1.3); the short form is the name alone. */
export const namespaceEntry = z.object(
  {
    name: namespaceName,
    /** Undefined: a namespace that exists keeps the labels it has. */
    labels: labels.optional(),
  },
  { error: 'is neither a name nor a map with name and labels' },
);

/** A namespace to create. */
export type NamespaceEntry = Readonly<z.output<typeof namespaceEntry>>;
