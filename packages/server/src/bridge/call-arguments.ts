import { isJsonObject, type JsonObject, type JsonValue, parseLossless } from '@sluice/json/lossless';
import type { RequestMessage } from '../mcp/message.ts';
import { paramText } from '../mcp/params-text.ts';
import { ServiceError } from './service-error.ts';

/**
 * The arguments of a call, numbers as they were spelled; none where there are none. Throws ServiceError
 * INVALID_ARGUMENTS when they are no object (decisions 6).
 */
export function argumentsOf({ text }: Pick<RequestMessage, 'text'>): JsonObject {
  const given = parsed(paramText(text, 'arguments') ?? 'null');
  if (given === null) return {};
  if (!isJsonObject(given)) throw new ServiceError('INVALID_ARGUMENTS', 'arguments must be an object');
  return given;
}

function parsed(text: string): JsonValue {
  try {
    return parseLossless(text);
  } catch (error) {
    throw new ServiceError('INVALID_ARGUMENTS', 'arguments are nested too deeply', { cause: error });
  }
}
