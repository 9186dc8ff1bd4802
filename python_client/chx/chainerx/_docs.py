"""ChainerX attaches its documentation when it is imported; here the operators have theirs."""
