import { actionTests } from './fixtures/action-tests.ts';
import { testOrdinaryActions } from './fixtures/ordinary-action-tests.ts';
import { fastToolchains } from './fixtures/ordinary-actions.ts';

testOrdinaryActions(actionTests(), fastToolchains);
