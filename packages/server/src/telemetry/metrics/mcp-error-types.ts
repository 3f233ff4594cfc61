import { STATUS_CODES } from 'node:http';
import {
  INTERNAL_ERROR,
  INVALID_PARAMS,
  INVALID_REQUEST,
  METHOD_NOT_FOUND,
  MODERN_ERROR_CODES,
  PARSE_ERROR,
} from '@sluice/protocol/mcp/constants';
import { RESOURCE_NOT_FOUND, URL_ELICITATION_REQUIRED } from '@sluice/protocol/mcp/era';
import { OTHER } from './other.ts';

/** What the official SDKs say of a connection that has ended, and of a request that took too long. */
const CONNECTION_CLOSED = -32000;
const REQUEST_TIMEOUT = -32001;
/** The status that logs have for a client that has left; it is in no list of those that are sent. */
const CLIENT_LEFT = '499';

/** Codes of JSON-RPC errors that are counted each by itself: JSON-RPC's own, those of both eras, the SDKs'. */
const CODES = [
  ...[PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR],
  ...MODERN_ERROR_CODES,
  ...[RESOURCE_NOT_FOUND, URL_ELICITATION_REQUIRED, CONNECTION_CLOSED, REQUEST_TIMEOUT],
];
const STATUSES = Object.keys(STATUS_CODES).filter((status) => Number(status) >= 400);
const NUMBERS: ReadonlySet<string> = new Set([...CODES.map(String), ...STATUSES, CLIENT_LEFT]);

/**
 * How the failure of an MCP message is counted. Words are ours and few; numbers are codes and statuses, of which upstreams
 * may choose a new one each time: those that nobody has given a meaning are one.
 */
export function countedErrorType(errorType: string | undefined): string | undefined {
  if (errorType === undefined || NUMBERS.has(errorType) || Number.isNaN(Number(errorType))) return errorType;
  return OTHER;
}
