import { members } from '@sluice/json/scan';
import { splice } from '@sluice/json/splice';

/** The response's text with this id, given as JSON text, in place of its own. */
export function withId(text: string, idText: string): string {
  for (const { key, start, end } of members(text))
    if (key === 'id') return splice(text, [{ start, end, text: idText }]);
  // An error without an id: it gets one.
  return text.replace('{', () => `{"id":${idText},`);
}
