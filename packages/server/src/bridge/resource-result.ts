import type { Era } from '@sluice/protocol/mcp/constants';
import { resultText } from '@sluice/protocol/mcp/message';
import type { Entry } from '../registry/entries.ts';
import { textIn } from './as-text.ts';

/** What reading a resource came to, as JSON text: a text of its contents for each of the reply's (decisions 4.10). */
export function resourceResult(
  era: Era,
  uri: string,
  { definition }: Pick<Entry, 'definition'>,
  content: readonly string[],
): string {
  const mimeType = textIn(definition, 'mimeType') || 'text/plain';
  const contents = content.map((text) => ({ uri, mimeType, text }));
  // The modern era asks how long it may be kept (2026-07-28, "Caching"): what was read for one caller is nothing to keep.
  return resultText(era, era === 'modern' ? { contents, ttlMs: 0, cacheScope: 'private' } : { contents });
}
