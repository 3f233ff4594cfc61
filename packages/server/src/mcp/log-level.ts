import { isJsonObject } from '@sluice/json/lossless';
import type { RequestMessage } from './message.ts';
import { META_LOG_LEVEL } from './protocol.ts';

/** Levels of log messages, least first (2025-11-25, "Logging"; RFC 5424). */
const LEVELS: readonly unknown[] = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];

/** True for the name of a level. */
export function isLogLevel(level: unknown): level is string {
  return LEVELS.includes(level);
}

/** The level that every message reaches. */
export const LEAST_LEVEL = 'debug';

/** True when a level lets more through than another one, of which undefined stands for none that was set. */
export function lowerLevel(level: string, than: string | undefined): boolean {
  return than === undefined || LEVELS.indexOf(level) < LEVELS.indexOf(than);
}

/** True when a log message reaches the least level that was asked for, by its params; one of an unknown level always does. */
export function reachesLevel(params: unknown, least: string): boolean {
  const at = LEVELS.indexOf(isJsonObject(params) ? params.level : undefined);
  return at === -1 || at >= LEVELS.indexOf(least);
}

/** The least level of log messages that a modern request asks for; undefined when it wants none (2026-07-28, "Logging"). */
export function requestedLevel({ params }: RequestMessage): string | undefined {
  const meta = params._meta;
  const level = isJsonObject(meta) ? meta[META_LOG_LEVEL] : undefined;
  return isLogLevel(level) ? level : undefined;
}
