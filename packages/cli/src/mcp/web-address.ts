/**
 * An address that somebody may be asked to visit; undefined for anything else. Shown as it is parsed, so that letters of
 * other alphabets cannot pass for another host; and none with a name before the host, which passes for the host itself.
 */
export function parseWebUrl(text: string): URL | undefined {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) return undefined;
  return url.username === '' && url.password === '' ? url : undefined;
}
