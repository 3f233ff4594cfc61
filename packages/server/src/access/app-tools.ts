import { parseJson } from '@sluice/protocol/json/parse';
import { memberText } from '@sluice/protocol/json/text';
import { editRequest, type RequestMessage } from '@sluice/protocol/mcp/message';
import type { NamespaceState } from '../registry/snapshot.ts';
import { visibleEntries } from './access.ts';

/**
 * Returns a call of an app's own tool as a call of the tool under the name that it is served with; undefined for other calls.
 * The HTML of an app (MCP Apps, `_meta.ui.visibility`) has the names of its server, which a prefix or an operator changes here.
 * Everything after this, such as evaluators, sees the served name.
 *
 * Only one forward may have a tool of that name, served or not: another one's HTML could mean that.
 */
export function appToolCall(message: RequestMessage, namespace: NamespaceState): RequestMessage | undefined {
  const { tool: tools } = namespace.indexes;
  const { name } = message.params;
  if (typeof name !== 'string' || tools.owner(name)) return undefined;
  const candidates = tools.renamedFrom(name);
  if (new Set(candidates.map(({ discovered }) => discovered?.forward)).size !== 1) return undefined;
  const visible = visibleEntries(namespace, 'tool');
  // Copies are tools of others.
  const tool = candidates.find((entry) => !entry.discovered?.copied && visible.served(entry.key) === entry);
  if (!tool?.rendered.some(({ json }) => isForAppsOnly(json))) return undefined;
  const given = message.paramMembers.find(({ key }) => key === 'name');
  return given && editRequest(message, [{ ...given, text: JSON.stringify(tool.key) }]);
}

/** True for a tool that apps see, and models do not. */
function isForAppsOnly(json: string): boolean {
  const visibility = parseJson(
    memberText(memberText(memberText(json, '_meta') ?? '', 'ui') ?? '', 'visibility') ?? 'null',
  );
  return Array.isArray(visibility) && visibility.length > 0 && visibility.every((who) => who === 'app');
}
