"""What statistics without a Gram answer by way of one."""

from __future__ import annotations

from abc import abstractmethod

from onlinels.accumulators.base import Accumulator
from onlinels.accumulators.gram import GramAccumulator
from onlinels.arrays import Floats
from onlinels.spectrum import Spectrum


class ByGram(Accumulator):
    """Statistics that can be turned into a Gram, for questions that are asked rarely."""

    @abstractmethod
    def information(self) -> GramAccumulator:
        """Return A'A and A'Y."""

    def spectrum(self) -> Spectrum:
        """Return the statistics in the eigenbasis of the Gram, by way of the Gram."""
        return self.information().spectrum()

    def explained_squares(self, output_weights: Floats) -> Floats:
        """Return 2 W'A'Y - W'A'A W of every target, by way of the Gram."""
        return self.information().explained_squares(output_weights)
