import { hostileActionTests } from './fixtures/hostile-action-tests.ts';

hostileActionTests(1);
