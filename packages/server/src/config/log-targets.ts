/** From the gravest to the most talkative. */
export const LOG_LEVELS = ['error', 'warn', 'info', 'debug', 'trace'] as const;
/** How grave a line is. */
export type LogLevel = (typeof LOG_LEVELS)[number];

/** The most talkative level that is still written. */
export type LogThreshold = LogLevel | 'off';

/**
 * The parts that a line can come from (decisions 1.2); `service` itself tells of the process' own life. Those called
 * `access` have a line per request, so that it can be had or done without by itself.
 */
export const LOG_TARGETS = [
  'service',
  'service::mcp',
  'service::mcp::access',
  'service::mgmt',
  'service::mgmt::access',
  'service::inference',
  'service::inference::access',
  'service::evaluator',
  'service::bridge',
  'service::registry',
  'service::forward',
] as const;
/** The part that a line comes from. */
export type LogTarget = (typeof LOG_TARGETS)[number];

/** The threshold of every target. */
export type LogFilter = Readonly<Record<LogTarget, LogThreshold>>;
