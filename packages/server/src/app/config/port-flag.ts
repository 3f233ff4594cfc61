import { ConfigError, quote } from '../../http/settings.ts';

/** Distance of the embedded pipeline's listeners from the port of the management API: 8080, 8081 and 8083. */
export const MCP_PORT_OFFSET = 1;
export const INFERENCE_PORT_OFFSET = 3;

const MAX_PORT = 65_535 - INFERENCE_PORT_OFFSET;

/** Parses `--port`: 0 for any free ports. Throws {@link ConfigError}. */
export function parsePort(text: string): number {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (port <= MAX_PORT) return port;
  throw new ConfigError(
    `--port: ${quote(text)} is not a port: expected 1 to ${MAX_PORT}, or 0 for any free ports; MCP uses the next port, and inference the third one after it`,
  );
}

/**
 * Applies `--port` to the environment: the port of the management API, and of the listeners of the embedded pipeline unless
 * they have variables of their own. The listeners of a pipeline file keep their addresses.
 */
export function withPort(env: NodeJS.ProcessEnv, port: number | undefined, hasPipeline: boolean): NodeJS.ProcessEnv {
  if (port === undefined) return env;
  const after = (offset: number) => `0.0.0.0:${port === 0 ? 0 : port + offset}`;
  const management = env.SERVICE_MGMT_LISTEN ? env.SERVICE_MGMT_LISTEN.replace(/:\d*$/, `:${port}`) : after(0);
  if (hasPipeline) return { ...env, SERVICE_MGMT_LISTEN: management };
  return {
    ...env,
    SERVICE_MGMT_LISTEN: management,
    SERVICE_MCP_LISTEN: env.SERVICE_MCP_LISTEN || after(MCP_PORT_OFFSET),
    SERVICE_INFERENCE_LISTEN: env.SERVICE_INFERENCE_LISTEN || after(INFERENCE_PORT_OFFSET),
  };
}
