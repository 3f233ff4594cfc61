import { connect } from '../connection/connect.ts';
import type { Context } from '../context.ts';
import { isNewNamespace } from '../entries/new-namespace.ts';

const DEADLINE_MS = 2000;

/**
 * Whether the service says that there is no such namespace. False too when it cannot be asked: that a program is
 * configured before the service runs, or by somebody who may not administer it, is nothing to talk about.
 */
export async function isMissingNamespace(
  context: Context,
  name: string,
  withoutCredentials: boolean,
): Promise<boolean> {
  const anonymous = () => connect({ ...context.options(), auth: { kind: 'none' } }, context.terminal);
  try {
    const client = await (withoutCredentials ? anonymous() : context.connect().catch(anonymous));
    return await isNewNamespace(client, name, AbortSignal.timeout(DEADLINE_MS));
  } catch {
    return false;
  }
}
