import { hostileActionTests } from './fixtures/hostile-action-tests.ts';

// A fifth of them; hostile-actions.slow.test.ts runs all.
hostileActionTests(5);
