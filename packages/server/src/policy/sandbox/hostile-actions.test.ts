import { hostileActionTests } from './fixtures/hostile-action-tests.ts';

// A 24th of them, at least one of each kind; hostile-actions.slow.test.ts runs all.
hostileActionTests(24);
