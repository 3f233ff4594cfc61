import { isJsonObject, type JsonObject, type JsonValue } from '@sluice/protocol/json/parse';
import { truncateBytes } from '@sluice/protocol/text';

/** Longest members, in bytes of UTF-8. */
const MAX_BYTES = { name: 256, version: 128, title: 256 } as const;

/** Control characters take six bytes each in JSON. */
const CONTROL_CHARACTERS = /\p{Cc}/gu;

/**
 * The part of a client's `clientInfo` that upstreams get in requests on its behalf, with the members that they require. The
 * rest may be of any size, such as icons as data URLs, and a session is stored in its id.
 */
export function boundedClientInfo(info: JsonValue | undefined): JsonObject {
  const { name, version, title }: JsonObject = isJsonObject(info) ? info : {};
  return {
    name: shortened(name, MAX_BYTES.name) ?? 'unknown',
    version: shortened(version, MAX_BYTES.version) ?? 'unknown',
    ...(typeof title === 'string' && { title: shortened(title, MAX_BYTES.title) ?? '' }),
  };
}

/** Undefined for other values than texts. */
function shortened(value: JsonValue | undefined, maxBytes: number): string | undefined {
  if (typeof value !== 'string') return undefined;
  return truncateBytes(value.slice(0, maxBytes).replace(CONTROL_CHARACTERS, ' '), maxBytes);
}
