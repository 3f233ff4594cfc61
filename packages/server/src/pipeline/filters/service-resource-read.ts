import { rpcError } from '../../answer/outcome.ts';
import type { CallRelay } from '../../forwards/relay.ts';
import { INTERNAL_ERROR, INVALID_PARAMS } from '../../mcp/protocol.ts';
import { matchTemplate } from '../../mcp/uri-template.ts';
import { type Entry, isTemplate } from '../../registry/entries.ts';
import type { Shelf } from '../../registry/shelf.ts';
import type { Filter } from '../chain.ts';

/** `resources/read`: the uri exactly, then the templates in order of registration (decisions 4.7). */
export function serviceResourceRead(relay: CallRelay): Filter {
  return (context) => {
    const { message, namespace } = context;
    if (message?.kind !== 'request' || message.method !== 'resources/read' || !namespace) return undefined;
    const { uri } = message.params;
    if (typeof uri !== 'string') return rpcError(INVALID_PARAMS, 'missing required parameter: uri');
    const resource = findResource(namespace.shelves.resource, uri);
    if (!resource) {
      // A uri that no list names, such as a resource_link's, can only be the one upstream's that offers resources.
      const forward = relay.onlyForwardWithResources(namespace);
      return forward
        ? relay.call(context, message, { kind: 'unlisted', forward })
        : rpcError(INVALID_PARAMS, `resource not found: ${uri}`);
    }
    const { discovered } = resource;
    if (discovered) return relay.call(context, message, { kind: 'discovered', entry: resource, discovered });
    return rpcError(INTERNAL_ERROR, `There is no host registered for service ${String(resource.members.type)}`);
  };
}

function findResource(shelf: Shelf, uri: string): Entry | undefined {
  const exact = shelf.get(uri);
  if (exact && !isTemplate(exact)) return exact;
  return shelf.templates.find((template) => matchTemplate(template.key, uri));
}
