import type { LoggingLevel } from '@modelcontextprotocol/client';

/** The severities of log messages, least first. */
export const LOG_LEVELS: readonly LoggingLevel[] = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
];
