import { type JsonObject, jsonObject, type NamespaceDeleteResult, namespaceName, operations } from '@sluice/contract';
import type { Era } from '@sluice/protocol/mcp/constants';
import { quoteText } from '@sluice/protocol/text';
import { NamespaceView } from '../mcp/namespace-view.ts';
import { entryId, entryPlace, KINDS, type Labels } from '../registry/entries.ts';
import { OperationError } from '../registry/operation-error.ts';
import { createNamespace, labelNamespace, removeNamespaceInSteps } from '../registry/operations-topology.ts';
import type { Registry } from '../registry/registry.ts';
import { entryDescription } from '../registry/serialize.ts';
import type { TargetLogger } from '../telemetry/log.ts';
import { parseBody } from './body.ts';
import type { ManagementContext } from './context.ts';
import { pagedResponse } from './paging.ts';
import { dataResponse, listResponse } from './responses.ts';
import { missingRight } from './rights.ts';
import type { ApiRequest, Router } from './router.ts';

/** `/api/v1/namespaces`. */
export function namespaceRoutes(router: Router, context: ManagementContext): void {
  const { registry, forwards, profiles, config, bindings } = context;
  const { publicUrl } = config;
  const namespaceJson = ({ name, labels }: { name: string; labels: Labels }): string =>
    JSON.stringify({ name, labels, ...(publicUrl && { mcpUrl: `${publicUrl.href}/${name}/mcp` }) });
  const { list, create, get, update, remove, view } = operations.namespaces;

  router.add(list, () => listResponse([...registry.current.namespaces.values()], namespaceJson));

  router.addWithBody(create, async ({ body: { name, labels = {} }, origin }) => {
    const { value, unconfirmed } = await registry.commit((draft) => createNamespace(draft, name, labels), origin);
    const json = namespaceJson(value.namespace);
    if (!value.created) return dataResponse(json, { unconfirmed });
    const location = `${create.path}/${value.namespace.name}`;
    return dataResponse(json, { status: 201, headers: { location }, unconfirmed });
  });

  router.add(get, ({ name }) => {
    const namespace = registry.current.namespace(name);
    if (!namespace) throw new OperationError('NOT_FOUND', `namespace not found: ${name}`);
    return dataResponse(namespaceJson(namespace));
  });

  router.addWithBody(update, async ({ name, body: { labels = {} }, origin }) => {
    const { value, unconfirmed } = await registry.commit((draft) => labelNamespace(draft, name, labels), origin);
    return dataResponse(namespaceJson(value), { unconfirmed });
  });

  router.add(remove, async (request) => {
    const { name, query, origin } = request;
    requireUnbound(request, bindings, [name]);
    const cascade = query('cascade') === 'true';
    const { value: returned, unconfirmed } = await registry.commit(
      (draft) => removeNamespaceInSteps(draft, name, cascade),
      origin,
    );
    const disabled = returned.map(({ kind, name: entry, namespace, discovered }) => {
      return { kind, name: entry, namespace, forward: discovered?.forward ?? '' };
    });
    const result: NamespaceDeleteResult = { removed: name, ...(disabled.length > 0 && { disabled }) };
    return dataResponse(JSON.stringify(result), { unconfirmed });
  });

  router.add(view, async ({ principal, address, name, query }) => {
    const profile = profiles.of(parseEra(query('era')), parseCapabilities(query('capabilities')));
    const cause = { namespace: { name }, principal, head: { address } };
    // Not on behalf of a namespace that does not exist.
    if (registry.current.namespace(name)) await forwards.profiles.ensureDiscoveredFor(profile, cause);
    const namespace = registry.current.namespace(name);
    if (!namespace) throw new OperationError('NOT_FOUND', `namespace not found: ${name}`);
    const viewed = new NamespaceView(namespace, profile.view);
    return pagedResponse(
      viewed.entries,
      {
        place: ({ entry }) => [KINDS.indexOf(entry.kind), ...entryPlace(entry)],
        key: ({ entry }) => entryId(entry),
        texts: ({ entry }) => [entry.name, entryDescription(entry)],
        serialize: (entry) => viewed.serialize(entry),
      },
      query,
    );
  });
}

/** Parses `?era=`; OperationError BAD_REQUEST for another value. */
function parseEra(text = 'modern'): Era {
  if (text === 'modern' || text === 'legacy') return text;
  throw new OperationError('BAD_REQUEST', `invalid era ${quoteText(text, 100)}: expected modern or legacy`);
}

/** Parses `?capabilities=`; OperationError BAD_REQUEST unless it is a JSON object within the limits of a body. */
function parseCapabilities(text = '{}'): JsonObject {
  return parseBody(Buffer.from(text), jsonObject, { kind: 'capabilities' });
}

/**
 * Logs a warning when a namespace `public` is created: authenticating proxies do not authenticate requests for its path.
 * Returns a function that stops the check.
 */
export function warnPublicNamespace(registry: Registry, log: TargetLogger): () => void {
  let known = false;
  const check = (): void => {
    const exists = registry.current.namespace('public') !== undefined;
    if (exists && !known) {
      log.warn('namespace public: authenticating proxies do not authenticate /public/*, so it is open to everyone');
    }
    known = exists;
  };
  check();
  return registry.committed.subscribe(check);
}

/** Throws OperationError FORBIDDEN if a deletion would remove bindings, which the caller may not change. */
export function requireUnbound(
  { may }: Pick<ApiRequest<never>, 'may'>,
  bindings: ManagementContext['bindings'],
  namespaces: readonly string[],
): void {
  const bound = bindings.list();
  const found = namespaces.find((name) => Object.hasOwn(bound, name));
  if (found === undefined || may('administer')) return;
  const reason = `namespace "${found}" is bound to a conversation, which its deletion would unbind`;
  throw new OperationError('FORBIDDEN', `${missingRight('administer')}; ${reason}`);
}

/** `/api/v1/evaluators/namespaces`: bindings of namespaces to conversations. */
export function bindingRoutes(router: Router, { bindings: current }: ManagementContext): void {
  const { bindings, bind, unbind } = operations.evaluators;

  router.add(bindings, () => dataResponse(JSON.stringify(current.list())));

  router.addWithBody(bind, async ({ name, body }) => {
    const { conversation_id } = body;
    const namespace = validNamespace(name);
    const unconfirmed = await current.set(namespace, conversation_id);
    return dataResponse(JSON.stringify({ namespace, conversation_id }), { unconfirmed });
  });

  router.add(unbind, async ({ name }) => {
    const unconfirmed = await current.delete(name);
    return dataResponse(JSON.stringify({ unbound: name }), { unconfirmed });
  });
}

/** Validates a namespace name; the namespace does not have to exist. */
function validNamespace(name: string): string {
  // The contract's schema trims names; in a path, spaces are part of the name.
  const problem =
    name.trim() === name ? namespaceName.safeParse(name).error?.issues[0]?.message : 'must not have blanks';
  if (problem === undefined) return name;
  throw new OperationError('BAD_REQUEST', `invalid binding: namespace ${problem}`, [
    { path: 'namespace', message: problem },
  ]);
}
