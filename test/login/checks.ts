import { ATTACK_CHECKS } from './attack-checks.ts';
import type { LoginCheck } from './environment.ts';
import { IDENTITY_CHECKS } from './identity-checks.ts';
import { TRAP_CHECKS } from './trap-checks.ts';
import { COMMAND_LINE_CHECKS, streamsLast, USE_CHECKS } from './use-checks.ts';

/** Everything that the login of `deploy/login` promises, and what attackers try. `streamMs`: how long event streams are held. */
export const loginChecks = (streamMs: number): readonly LoginCheck[] => [
  ...USE_CHECKS,
  streamsLast(streamMs),
  ...COMMAND_LINE_CHECKS,
  ...ATTACK_CHECKS,
  ...IDENTITY_CHECKS,
  ...TRAP_CHECKS,
];
