/** The longest delay that a timer takes, in milliseconds; beyond it Node.js fires at once. */
export const LONGEST_TIMER_MS = 2 ** 31 - 1;
