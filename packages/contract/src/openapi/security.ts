import type { Right } from '../operations/operation.ts';

/** How callers are authenticated, if the service is configured to. */
export const SECURITY_SCHEMES = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'Required only if the service has roles. An authenticating proxy may name the user instead.',
  },
} as const;

/** The security requirement of an operation: OpenAPI 3.1 has a list of roles there, which are the names of rights. */
export function security(right: Right): { readonly security: readonly object[] } {
  // An empty requirement makes it optional.
  return { security: right === 'open' ? [] : [{}, { bearer: [right] }] };
}
